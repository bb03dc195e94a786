"""The event store of schedules: SQLite in the home, or PostgreSQL for several machines.

An append is one transaction and is on disk when it returns. The n-th event of a stream exists once,
so that of two writers that decided on the same state one succeeds; and since a run is a stream, a
logical time has one run, whoever requests it. The events of all streams also form one log.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from eventsourcing.persistence import (
    ApplicationRecorder,
    IntegrityError,
    PersistenceError,
    StoredEvent,
)

from atdp.runtime import Home
from atdp.stack.errors import ScheduleError
from atdp.stack.schedules.schedule_events import ScheduleEvent, stored_event

SCHEDULES_URL: Final = "ATDP_SCHEDULES_URL"
"""Environment variable with the URL of a PostgreSQL database for schedules and their runs."""
_TABLE: Final = "schedule_events"
_BATCH: Final = 1000
_LONGEST_FREEZE_S: Final = 30.0
"""PostgreSQL ends the session of a process that stands still this long within an append. The append
locks the table, so without an end nobody else could write."""


def schedules_url() -> str | None:
    """Return the URL of the PostgreSQL database; None: the files of the home.

    Raises:
        ScheduleError: the URL is none of PostgreSQL.
    """
    url = os.environ.get(SCHEDULES_URL) or None
    if url is not None and urlsplit(url).scheme not in ("postgresql", "postgres"):
        raise ScheduleError(
            "store", f"{SCHEDULES_URL} must be a URL such as postgresql://user@host:5432/database"
        )
    return url


class ScheduleStore:
    """The events of schedules and runs. Several processes may use one store."""

    def __init__(self, home: Home, url: str | None = None) -> None:
        """Open the store of `url` (PostgreSQL), or else that of the home.

        Raises:
            ScheduleError: it cannot be opened.
        """
        self._name = f"the database of {SCHEDULES_URL}"
        with self._reporting("open"):
            if url is not None:
                self._datastore, self._recorder = _postgres(url)
                return
            file = home.root / "schedules" / "schedules.sqlite"
            self._name = str(file)
            # The URL of a webhook may be a secret.
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._datastore, self._recorder = _sqlite(str(file))

    def close(self) -> None:
        """Release the connections."""
        self._datastore.close()

    def append(self, events: Sequence[ScheduleEvent]) -> None:
        """Append all events or none; they are on disk when this returns.

        Raises:
            ScheduleError: an event with one of the numbers exists (`conflict`), or the store
                cannot be written.
        """
        stored = [
            StoredEvent(
                originator_id=event.stream,
                originator_version=event.number,
                topic=event.type,
                state=event.state(),
            )
            for event in events
        ]
        if not stored:
            return
        with self._reporting("write"):
            try:
                self._recorder.insert_events(stored)
            except IntegrityError as error:
                raise ScheduleError(
                    "conflict", f"somebody else changed {events[0].stream} first; try again"
                ) from error

    def log(self, after: int) -> Iterator[tuple[int, ScheduleEvent]]:
        """Yield the events with their positions in the log, those after `after`."""
        while True:
            with self._reporting("read"):
                found = self._recorder.select_notifications(after, _BATCH, inclusive_of_start=False)
            for each in found:
                after = each.id
                yield (
                    after,
                    stored_event(
                        str(each.originator_id), each.originator_version, each.topic, each.state
                    ),
                )
            if len(found) < _BATCH:
                return

    def stream(self, name: str) -> list[ScheduleEvent]:
        """Return the events of a stream, in order."""
        with self._reporting("read"):
            found = self._recorder.select_events(name)
        return [
            stored_event(name, each.originator_version, each.topic, each.state) for each in found
        ]

    @contextmanager
    def _reporting(self, action: str) -> Iterator[None]:
        try:
            yield
        except (PersistenceError, OSError) as error:
            raise ScheduleError(
                "store", f"cannot {action} the store of schedules in {self._name}: {error}"
            ) from error


def _sqlite(file: str) -> tuple[Any, ApplicationRecorder]:
    from eventsourcing.sqlite import SQLiteApplicationRecorder, SQLiteDatastore

    datastore = SQLiteDatastore(file, originator_id_type="text", lock_timeout=10)
    recorder = SQLiteApplicationRecorder(datastore, events_table_name=_TABLE)
    recorder.create_table()
    return datastore, recorder


def _postgres(url: str) -> tuple[Any, ApplicationRecorder]:
    from eventsourcing.postgres import PostgresApplicationRecorder, PostgresDatastore

    parts = urlsplit(url)
    datastore = PostgresDatastore(
        dbname=parts.path.lstrip("/"),
        host=parts.hostname or "localhost",
        port=parts.port or 5432,
        user=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
        originator_id_type="text",
        idle_in_transaction_session_timeout=_LONGEST_FREEZE_S,
    )
    recorder = PostgresApplicationRecorder(datastore, events_table_name=_TABLE)
    recorder.create_table()
    return datastore, recorder
