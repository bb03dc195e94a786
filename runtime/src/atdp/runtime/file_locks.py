"""File locks in a home: who may load weights into an engine now, among all processes and threads of the machine.

A load takes up to minutes, and an engine goes on saying that it serves the old version until the
last moment. So whoever loads, or lets a route name an engine because of what it serves, holds the
engine's lock meanwhile. The kernel lets go of a lock when its holder ends, however it ends; the
files stay, empty.
"""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """Hold the lock `file`, waiting for it as long as it takes; it is made where it is missing."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


@contextmanager
def loading(folder: Path, engine: str) -> Iterator[None]:
    """Be the only one who changes, or relies on, what an engine of the stack serves.

    `folder` is the home's `control`.
    """
    with locked(folder / f"loading-{engine}.lock"):
        yield
