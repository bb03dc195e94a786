"""A sqlite file that several threads and processes write, and that survives a power failure."""

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from atdp.rewards.evaluators.errors import JournalError

_BUSY_S = 30.0


class SqliteFile:
    """Tables in one file; every write is one transaction and on the disk when it ends."""

    def __init__(self, file: Path, schema: str) -> None:
        self.file = file
        self._lock = threading.Lock()
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch(mode=0o600, exist_ok=True)
            self._db = sqlite3.connect(
                file, timeout=_BUSY_S, isolation_level=None, check_same_thread=False
            )
            self._db.row_factory = sqlite3.Row
            self._db.execute("PRAGMA journal_mode=WAL")
            # An answer that was paid for, and a call that counts, survive a power failure.
            self._db.execute("PRAGMA synchronous=FULL")
            self._db.executescript(schema)
        except (OSError, sqlite3.Error) as error:
            raise JournalError(
                f"cannot open the journal of evaluations {file}: {error}; check its permissions"
            ) from error

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._db.close()

    def _rows(self, query: str, values: Sequence[object]) -> list[sqlite3.Row]:
        with self._lock:
            return self._db.execute(query, values).fetchall()

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            try:
                self._db.execute("BEGIN IMMEDIATE")
            except sqlite3.Error as error:
                raise JournalError(
                    f"the journal of evaluations is not writable: {error}"
                ) from error
            try:
                yield self._db
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")
