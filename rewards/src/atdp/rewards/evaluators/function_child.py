"""The process of one function: reads a trajectory, calls the function, writes its result.

It is run as a file and imports nothing of the platform. What the function prints is thrown away.
"""

import importlib
import json
import os
import resource
import signal
import sys


def main() -> None:
    """Call `MODULE:FUNCTION` under limits; an exception of the function is the exit code 1.

    The caller ends the process in time. Where the caller was killed, the process ends itself, with
    what it has started.
    """
    function, folder, memory_mb, cpu_s = sys.argv[1:]
    # The handler ends the process, so it cannot block.
    signal.signal(  # noqa: TID251
        signal.SIGALRM, lambda *_: os.killpg(os.getpgrp(), signal.SIGKILL)
    )
    signal.alarm(int(cpu_s))
    size = int(memory_mb) * 1024 * 1024
    resource.setrlimit(resource.RLIMIT_AS, (size, size))
    resource.setrlimit(resource.RLIMIT_CPU, (int(cpu_s), int(cpu_s)))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # The folder of this file would hide installed modules of the same names.
    sys.path[0] = folder
    trajectory = json.load(sys.stdin)
    result_file = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    module, _, name = function.partition(":")
    result = getattr(importlib.import_module(module), name)(trajectory)
    with result_file:
        json.dump(result, result_file)


if __name__ == "__main__":
    main()
