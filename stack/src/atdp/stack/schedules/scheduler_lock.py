"""One scheduler at work at a time: a lock that ends with the process that holds it.

On one machine it is a file lock in the home. With PostgreSQL it is an advisory lock of the
database, so that schedulers on many machines stand by for the one that works.

A lock can be lost without a sign: the database ends a session, or somebody removes the file. The
holder asks before each round, and ends. Until then two may work, and after a freeze the one that
lost the lock may do so for a moment, too. A run then still ends once, with one set of results. Its
events have fixed numbers in the store, and DBOS takes results from the process that has the run in
hand. A part that both are in is made twice, which has the effect of one.
"""

import os
from pathlib import Path
from typing import IO, Any, Final

from atdp.runtime import try_lock
from atdp.stack.errors import ScheduleError

_SILENCE_S: Final = 30
"""The connection is lost when the other side does not answer for this long, for both sides. The
system's own limits are hours, and nobody takes over from a machine that is gone until then."""
_KEEPALIVES: Final = {
    "tcp_keepalives_idle": _SILENCE_S // 3,
    "tcp_keepalives_interval": _SILENCE_S // 3,
    "tcp_keepalives_count": 2,
}
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
            ScheduleError: the connection that holds it was lost, or its file was removed; another
                process may work now.
        """
        if self._held is None:
            return
        lost = self._lost_in_database() if self._url else self._lost_in_folder()
        if lost is not None:
            raise ScheduleError("store", f"the lock of the scheduler was lost: {lost}")

    def close(self) -> None:
        """Release the lock."""
        if self._held is not None:
            self._held.close()
            self._held = None

    @property
    def _file(self) -> Path:
        return self._folder / "scheduler.lock"

    def _taken_in_folder(self) -> IO[bytes] | None:
        return try_lock(self._file)

    def _lost_in_folder(self) -> str | None:
        try:
            is_same = os.path.samestat(os.fstat(self._held.fileno()), self._file.stat())
        except OSError as error:
            return str(error)
        return None if is_same else f"{self._file} is another file now"

    def _taken_in_database(self) -> Any:
        import psycopg

        try:
            connection = psycopg.connect(
                self._url or "",
                autocommit=True,
                connect_timeout=_SILENCE_S,
                tcp_user_timeout=_SILENCE_S * 1000,
            )
            row = connection.execute("SELECT pg_try_advisory_lock(%s)", (_KEY,)).fetchone()
            if row is not None and row[0]:
                for setting, value in _KEEPALIVES.items():
                    connection.execute("SELECT set_config(%s, %s, false)", (setting, str(value)))
                return connection
        except psycopg.Error as error:
            raise OSError(str(error)) from error
        connection.close()
        return None

    def _lost_in_database(self) -> str | None:
        import psycopg

        try:
            self._held.execute("SELECT 1")
        except psycopg.Error as error:
            return str(error)
        return None
