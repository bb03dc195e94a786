"""Advisory file locks (flock) between processes and threads of one machine.

The kernel releases a lock when its holder ends, however it ends. Lock files stay, empty.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """Hold the exclusive lock on `file` for the block, waiting for it as long as it takes.

    The file and its folder are made where they are missing.
    """
    with _opened(file) as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def try_lock(file: Path, *, shared: bool = False) -> IO[bytes] | None:
    """Take the lock on `file` without waiting.

    Returns the open file, which holds the lock until it is closed, or None when another holder has
    it. `shared` asks for a lock that other shared holders do not exclude.
    """
    handle = _opened(file)
    try:
        fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        handle.close()
        return None
    return handle


def _opened(file: Path) -> IO[bytes]:
    file.parent.mkdir(parents=True, exist_ok=True)
    return os.fdopen(os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "r+b")
