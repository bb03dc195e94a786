"""The event store of the release flow: SQLite through `eventsourcing`, one stream per release line.

Guarantees: an append is one transaction, on disk when it returns (WAL, full sync); the n-th event
of a line exists once (primary key), so of two writers that decided on the same state one wins and
the other gets `DecisionConflict`. All events of all lines also form one gapless log, in which the outbox
keeps its position; the position lives in the same database.
"""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from eventsourcing.persistence import IntegrityError, PersistenceError, StoredEvent, Tracking
from eventsourcing.sqlite import SQLiteDatastore, SQLiteProcessRecorder

from atdp.control.errors import DecisionConflict, StoreError
from atdp.control.events import SCHEMA, Body, Decided, body_from_json, body_to_json
from atdp.control.state import ReleaseState, fold
from atdp.replay import rounded_canonical_json
from atdp.schemas import deterministic_event_id

STORE_FILE_NAME = "release.sqlite"
"""Name of the store in `home.control`."""


def line_name(model: str, component: str = "weights") -> str:
    """Name of a release line: the aggregate's id, and the key on the control topic."""
    return f"{component}/{model}"


def number_decisions(
    line: str, after: int, bodies: Sequence[Body], *, at: datetime, actor: str
) -> tuple[Decided, ...]:
    """Give bodies their place in a line; ids follow from line and number, so publishing twice gives the same id."""
    if at.tzinfo is None:
        raise ValueError("times are aware; give a datetime with a time zone")
    moment = at.astimezone(UTC)
    return tuple(
        Decided(
            event_id=deterministic_event_id(moment, line, str(number)),
            line=line,
            number=number,
            occurred_at=moment,
            actor=actor,
            body=body,
        )
        for number, body in enumerate(bodies, start=after + 1)
    )


class ReleaseStore:
    """Appends and reads decisions. One instance per process; safe between processes."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.path = directory / STORE_FILE_NAME
        try:
            self._datastore = SQLiteDatastore(
                str(self.path), originator_id_type="text", lock_timeout=10
            )
            self._recorder = SQLiteProcessRecorder(
                self._datastore, events_table_name="release_events"
            )
            self._recorder.create_table()
        except PersistenceError as error:
            raise StoreError(f"cannot open the release store {self.path}: {error}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Release the connections."""
        self._datastore.close()

    def append(self, decided: Sequence[Decided]) -> None:
        """Append all or nothing; on disk when it returns.

        Raises `DecisionConflict` when a number is taken.
        """
        if not decided:
            return
        try:
            self._recorder.insert_events([_stored(d) for d in decided])
        except IntegrityError as error:
            raise DecisionConflict(
                f"somebody else decided on {decided[0].line} first (event {decided[0].number} exists); read"
                " `atdp control history` and decide again"
            ) from error
        except PersistenceError as error:
            raise StoreError(f"cannot write the release store {self.path}: {error}") from error

    def history(self, line: str) -> tuple[Decided, ...]:
        """All decisions of a line, in order; empty for an unknown line."""
        try:
            return tuple(_decided(e) for e in self._recorder.select_events(line))
        except PersistenceError as error:
            raise StoreError(f"cannot read the release store {self.path}: {error}") from error

    def state(self, line: str) -> ReleaseState:
        """The line as it is now."""
        return fold(d.body for d in self.history(line))

    def lines(self) -> tuple[str, ...]:
        """Names of all lines, sorted."""
        with self._datastore.transaction(commit=False) as cursor:
            cursor.execute(
                "SELECT DISTINCT originator_id FROM release_events ORDER BY originator_id"
            )
            return tuple(str(row["originator_id"]) for row in cursor.fetchall())

    def log(self, after: int, limit: int) -> list[tuple[int, Decided]]:
        """Decisions of all lines by position in the whole log, those beyond `after`."""
        found = self._recorder.select_notifications(after, limit, inclusive_of_start=False)
        return [(n.id, _decided(n)) for n in found]

    def position(self, reader: str) -> int:
        """How far a reader of the log has got; 0 at first."""
        return int(self._recorder.max_tracking_id(reader) or 0)

    def advance(self, reader: str, position: int) -> None:
        """Record how far a reader has got; a reader that is behind another of its name changes nothing."""
        try:
            self._recorder.insert_tracking(Tracking(reader, position))
        except IntegrityError:
            return


def _stored(decided: Decided) -> StoredEvent:
    state = {
        "schema": SCHEMA,
        "event_id": decided.event_id,
        "occurred_at": decided.occurred_at.isoformat(timespec="microseconds"),
        "actor": decided.actor,
        "body": body_to_json(decided.body),
    }
    return StoredEvent(
        originator_id=decided.line,
        originator_version=decided.number,
        topic=decided.type,
        state=rounded_canonical_json(state),
    )


def _decided(stored: StoredEvent) -> Decided:
    try:
        state: dict[str, Any] = json.loads(stored.state)
        return Decided(
            event_id=state["event_id"],
            line=str(stored.originator_id),
            number=stored.originator_version,
            occurred_at=datetime.fromisoformat(state["occurred_at"]),
            actor=state["actor"],
            body=body_from_json(stored.topic, state["body"], schema=state["schema"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise StoreError(
            f"event {stored.originator_version} of {stored.originator_id} cannot be read: {error!r}"
        ) from error
