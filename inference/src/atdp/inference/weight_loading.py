"""The lock of an engine's weights: one process at a time changes, or relies on, what it serves.

A load takes up to minutes, and an engine goes on saying that it serves the old version until the
last moment. Whoever loads weights, or routes traffic to an engine because of what it serves, holds
this lock meanwhile.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from atdp.runtime import locked


@contextmanager
def loading(folder: Path, engine: str) -> Iterator[None]:
    """Hold the lock of the engine named `engine`; `folder` is the home's `control`."""
    with locked(folder / f"loading-{engine}.lock"):
        yield
