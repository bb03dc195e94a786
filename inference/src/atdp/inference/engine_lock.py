"""The lock on an engine's weights: one process at a time changes them, or relies on them.

Loading weights takes up to minutes, and until its end the engine still reports the old version. A
process that loads weights, or that routes traffic to an engine because of the version it serves,
holds this lock meanwhile.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from atdp.runtime import locked


@contextmanager
def lock_engine_weights(folder: Path, engine: str) -> Iterator[None]:
    """Hold the lock of the engine named `engine`; `folder` is the `control` folder of the home."""
    with locked(folder / f"loading-{engine}.lock"):
        yield
