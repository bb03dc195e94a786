"""One scheduler at work at a time: a lock that ends with the process that holds it.

On one machine it is a file lock in the home. With PostgreSQL it is an advisory lock of the
database, so that schedulers on many machines stand by for the one that works. Should two work for a
moment (a connection that was lost), the store and DBOS still let each run be made once.
"""

from pathlib import Path
from typing import IO, Any, Final

from atdp.runtime import try_lock
from atdp.stack.errors import ScheduleError

_KEY: Final = 0x61746470_73636865  # "atdpsche": the number of the advisory lock


class SchedulerLock:
    """The lock of the schedulers of one store."""

    def __init__(self, folder: Path, url: str | None) -> None:
        """Use the database of `url`, or else a file in `folder`."""
        self._folder, self._url = folder, url
        self._held: Any = None

    def take(self) -> bool:
        """Take the lock without waiting; False: another process has it.

        Raises:
            ScheduleError: the lock cannot be asked for.
        """
        if self._held is None:
            try:
                self._held = self._taken_in_database() if self._url else self._taken_in_folder()
            except OSError as error:
                raise ScheduleError(
                    "store", f"the lock of the scheduler cannot be taken: {error}"
                ) from error
        return self._held is not None

    def check(self) -> None:
        """Check that the lock, which was taken, is still held.

        Raises:
            ScheduleError: the connection that holds it was lost; another process may work now.
        """
        if self._url is not None and self._held is not None:
            import psycopg

            try:
                self._held.execute("SELECT 1")
            except psycopg.Error as error:
                raise ScheduleError(
                    "store", f"the lock of the scheduler was lost: {error}"
                ) from error

    def close(self) -> None:
        """Release the lock."""
        if self._held is not None:
            self._held.close()
            self._held = None

    def _taken_in_folder(self) -> IO[bytes] | None:
        return try_lock(self._folder / "scheduler.lock")

    def _taken_in_database(self) -> Any:
        import psycopg

        try:
            connection = psycopg.connect(self._url or "", autocommit=True)
            row = connection.execute("SELECT pg_try_advisory_lock(%s)", (_KEY,)).fetchone()
        except psycopg.Error as error:
            raise OSError(str(error)) from error
        if row is not None and row[0]:
            return connection
        connection.close()
        return None
