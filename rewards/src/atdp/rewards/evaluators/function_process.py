"""One call of a function of an evaluators file, in a process of its own with limits.

The process gets the trajectory as JSON on standard input and writes the result to standard output.
Time and memory are limited by the operating system; whatever the process started ends with it. Its
environment holds no variable of the worker but the search paths, so no key.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from atdp.rewards.evaluators.errors import EvaluationFailed
from atdp.rewards.evaluators.evaluators_file import CallableEvaluator
from atdp.rewards.evaluators.verdict import Answer, read_function_result

_CHILD = Path(__file__).with_name("function_child.py")
_KEPT_VARIABLES = ("PATH", "PYTHONPATH", "VIRTUAL_ENV", "LANG", "TMPDIR")
_MOST_RESULT_BYTES = 4 * 1024 * 1024


def call_function(
    settings: CallableEvaluator, trajectory: Mapping[str, Any], folder: Path
) -> Answer:
    """Return the answer of the function about a trajectory.

    Raises:
        EvaluationFailed: it failed, took too long, or returned no verdict.
    """
    limits = [str(settings.memory_mb), str(int(settings.timeout_s) + 1)]
    command = [sys.executable, str(_CHILD), settings.function, str(folder), *limits]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ},
        start_new_session=True,
    ) as process:
        try:
            text = json.dumps(trajectory).encode()
            written, _ = process.communicate(text, timeout=settings.timeout_s)
        except subprocess.TimeoutExpired:
            raise EvaluationFailed("slow", "the function did not end in time") from None
        finally:
            _kill_group(process)
    if process.returncode != 0 or len(written) > _MOST_RESULT_BYTES:
        raise EvaluationFailed("failed", f"the function failed ({_reason(process.returncode)})")
    try:
        result = json.loads(written)
    except (ValueError, RecursionError):
        raise EvaluationFailed("nonsense", "the function's result is no JSON") from None
    return read_function_result(result, frozenset(trajectory["steps"]))


def _kill_group(process: "subprocess.Popen[bytes]") -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _reason(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"
