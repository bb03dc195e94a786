"""Advisory locks on files (flock), between the processes and threads of one machine.

The kernel releases a lock when the last process that holds it ends, however it ends. A process that
is started with exec does not inherit the lock; a forked child does (see `try_lock`). Lock files are
never removed: another process might hold or wait for the lock of a file that no longer has a name.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """Hold the exclusive lock on `file` for the block; waits for it without a time limit.

    The file and its directory are created where they are missing. The lock is not reentrant: a
    thread that holds it and asks for it again never gets it. A child that is forked inside the
    block does not keep the lock when the block ends.

    Raises:
        OSError: the file cannot be opened or locked.
    """
    owner = os.getpid()
    with _open(file) as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        try:
            yield
        finally:
            # A forked child shares the lock. Closing the file here would leave the lock with the
            # child, and the child must not release the lock that its parent still needs.
            if os.getpid() == owner:
                fcntl.flock(handle, fcntl.LOCK_UN)


def try_lock(file: Path, *, shared: bool = False) -> IO[bytes] | None:
    """Take the lock on `file` without waiting.

    Returns the open file, which holds the lock until it is closed, or None when another holder has
    it. `shared` asks for a lock that several holders with `shared` may have at the same time; the
    file is then opened for reading only, so that a user who may not write it can ask. The file and
    its directory are created where they are missing.

    A child that is forked while the file is open holds the lock too, until it closes the file or
    ends.

    Raises:
        OSError: the file cannot be opened or locked.
    """
    handle = _open(file, read_only=shared)
    try:
        fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        handle.close()
        return None
    except OSError:
        handle.close()
        raise
    return handle


def _open(file: Path, *, read_only: bool = False) -> IO[bytes]:
    file.parent.mkdir(parents=True, exist_ok=True)
    access, opened = (os.O_RDONLY, "rb") if read_only else (os.O_RDWR, "r+b")
    # Python opens files with O_CLOEXEC, so that a process started with exec does not inherit them.
    return os.fdopen(os.open(file, access | os.O_CREAT, 0o600), opened)
