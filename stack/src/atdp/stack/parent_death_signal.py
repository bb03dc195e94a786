"""Start a program that ends when the process that started it ends.

Run as a script: `python -I -S parent_death_signal.py PARENT_PID SIGNAL PROGRAM [ARG…]`. It asks the
Linux kernel to send SIGNAL when the parent dies (`PR_SET_PDEATHSIG`, which survives `exec`), makes
sure that the parent has not died in between, and becomes PROGRAM. This is not done in
`Popen(preexec_fn=…)`, because Python code between fork and exec would hang the child where another
thread holds a lock.

The kernel watches the *thread* that forked: start children from a thread that lives as long as they
should. On other systems than Linux the program simply starts; a process that is left over is then
found through its pid file at the next start.
"""

import ctypes
import os
import signal
import sys
from collections.abc import Sequence

_PR_SET_PDEATHSIG = 1


def bound_to_this_process(command: Sequence[str], on_death: signal.Signals) -> list[str]:
    """Return a command line that runs `command` and sends it `on_death` when this process dies."""
    return [sys.executable, "-I", "-S", __file__, str(os.getpid()), str(int(on_death)), *command]


def main(arguments: list[str]) -> None:
    """Ask for the signal, then become the program."""
    parent, on_death, program = int(arguments[0]), int(arguments[1]), arguments[2:]
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, on_death, 0, 0, 0)
        if os.getppid() != parent:
            sys.exit(128 + signal.Signals(on_death))
    os.execvp(program[0], program)  # noqa: S606


if __name__ == "__main__":
    main(sys.argv[1:])
