"""Start a program so that it does not outlive the one who started it.

Run as a script: `python -I -S tether.py PARENT_PID SIGNAL PROGRAM [ARG…]`. It asks the Linux kernel
to send SIGNAL when the parent dies (`PR_SET_PDEATHSIG`, which survives `exec`), makes sure that the
parent has not died in between, and becomes PROGRAM. Doing it here and not in `Popen(preexec_fn=…)`
keeps Python code out of the time between fork and exec, where a lock held by another thread would
hang the child.

The kernel watches the *thread* that forked: start children from a thread that lives as long as they
should. On other systems than Linux the program simply starts; a stale process is then found through
its pid file at the next start.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> None:
    """Tether to the parent, then become the program."""
    parent, on_death, program = int(arguments[0]), int(arguments[1]), arguments[2:]
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, on_death, 0, 0, 0)
        if os.getppid() != parent:
            sys.exit(128 + signal.Signals(on_death))
    os.execvp(program[0], program)  # noqa: S606


if __name__ == "__main__":
    main(sys.argv[1:])
