"""A Python process that a test kills."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def killed_process(program: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run a program, wait for its first line of output, and kill it at the end of the block."""
    command = [sys.executable, "-c", program, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline()
            yield process
        finally:
            process.send_signal(signal.SIGKILL)
