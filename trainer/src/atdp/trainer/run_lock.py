"""The lock of a run: one process at a time trains it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from atdp.runtime import try_lock
from atdp.trainer.errors import TrainerError


class RunBusyError(TrainerError):
    """Another process trains this run."""


@contextmanager
def lock_run(directory: Path) -> Iterator[None]:
    """Hold the lock of a run's directory for the block; the lock ends with its process.

    Raises:
        RunBusyError: another process holds it.
    """
    lock = try_lock(directory / "lock")
    if lock is None:
        raise RunBusyError(
            f"another process is training run {directory.name!r}; "
            "wait for it, or name another run with --run"
        )
    with lock:
        yield
