"""The names of the workers of a home, and which of them are alive.

Each worker holds the lock on a file of its name; the kernel releases it when the process ends,
however it ends. So what a killed worker had claimed is free within seconds.
"""

import os
from pathlib import Path
from types import TracebackType
from typing import Self

from atdp.rewards.evaluators.errors import JournalError
from atdp.runtime import try_lock


class WorkerLock:
    """The name of this worker, and its lock."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.name = f"{os.getpid()}-{os.urandom(6).hex()}"
        """A name that no other worker of the home has or had."""
        self._held = try_lock(self._file(self.name))
        if self._held is None:
            raise JournalError(f"the lock {self._file(self.name)} is taken by another process")

    def is_alive(self, worker: str) -> bool:
        """Return whether the worker of this name still runs."""
        if worker == self.name:
            return True
        try:
            lock = try_lock(self._file(worker))
        except OSError:
            return True  # nothing is known, so its claims stay until their time is over
        if lock is None:
            return True
        self._file(worker).unlink(missing_ok=True)
        lock.close()
        return False

    def close(self) -> None:
        """Release the lock; the worker counts as gone."""
        if self._held is not None:
            self._file(self.name).unlink(missing_ok=True)
            self._held.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _file(self, worker: str) -> Path:
        return self._folder / f"evaluator-{worker}.lock"
