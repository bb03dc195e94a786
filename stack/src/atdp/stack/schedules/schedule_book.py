"""The state of all schedules and runs, folded from the log of their events.

A book reads on from where it stopped, so that a process that lives long reads each event once. The
fold is pure: no clock and no randomness. It does not check events, because only the desk and the
scheduler make them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import assert_never

from atdp.stack.errors import ScheduleError
from atdp.stack.schedules.refused_definition import (
    RefusedDefinition,
    StoredDefinition,
    accepted,
)
from atdp.stack.schedules.schedule_clock import next_tick
from atdp.stack.schedules.schedule_definition import ScheduleDefinition
from atdp.stack.schedules.schedule_events import (
    DataObserved,
    EventBody,
    KeyTaken,
    RunEnded,
    RunRequested,
    RunStarted,
    ScheduleChange,
    ScheduleDefined,
    ScheduleEvent,
    SchedulePaused,
    ScheduleRemoved,
    ScheduleResumed,
    TicksSkipped,
)
from atdp.stack.schedules.schedule_state import Run, ScheduleStage, ScheduleStatus
from atdp.stack.schedules.schedule_store import ScheduleStore

_CLOCK_FIELDS = {"cron", "timezone", "excluded_dates", "on"}
_DATA_FIELDS = {"on", "model", "where", "tenants"}


@dataclass(slots=True, kw_only=True)
class ScheduleRecord:
    """One schedule. Times of its clock up to `clock_from` have been dealt with."""

    definitions: list[StoredDefinition]
    """Every version, the first one is version 1."""
    stage: ScheduleStage
    changed_at: datetime
    actor: str
    clock_from: datetime
    data_since: datetime
    """Data that came later request runs."""
    data_from: int | None = None
    """Position of the data that have been dealt with; None: not observed yet."""
    runs: dict[datetime, Run] = field(default_factory=dict)
    open_times: set[datetime] = field(default_factory=set)
    """Logical times of the runs that have not ended."""

    @property
    def newest(self) -> StoredDefinition:
        """The newest definition, which may be refused."""
        return self.definitions[-1]

    @property
    def definition(self) -> ScheduleDefinition:
        """The definition in force.

        Raises:
            ScheduleError: the newest one is refused, so none is in force.
        """
        return accepted(self.newest)

    @property
    def version(self) -> int:
        """The version of the definition in force."""
        return len(self.definitions)

    def status(self, now: datetime) -> ScheduleStatus:
        """Return the schedule as it is at `now`."""
        last, newest = max(self.runs, default=None), self.newest
        due = self.stage == "active" and isinstance(newest, ScheduleDefinition)
        return ScheduleStatus(
            definition=newest,
            version=self.version,
            stage=self.stage,
            changed_at=self.changed_at,
            actor=self.actor,
            next_at=next_tick(self.definition, max(now, self.clock_from)) if due else None,
            last_run=None if last is None else self.runs[last],
            open_runs=len(self.open_times),
        )

    def open_runs(self) -> list[Run]:
        """Return the runs that have not ended, by logical time."""
        return [self.runs[moment] for moment in sorted(self.open_times)]


@dataclass(slots=True)
class ScheduleBook:
    """All schedules and runs of a store."""

    schedules: dict[str, ScheduleRecord] = field(default_factory=dict)
    keys: dict[tuple[str, str], datetime] = field(default_factory=dict)
    """The logical time of the run that an idempotency key names, by schedule and key."""
    numbers: dict[str, int] = field(default_factory=dict)
    """Number of events by stream."""
    position: int = 0
    """Position in the log up to which events were folded."""

    def refresh(self, store: ScheduleStore) -> list[ScheduleEvent]:
        """Fold the events that were appended since the last call, and return them."""
        events = []
        for position, event in store.log(self.position):
            self._fold(event)
            self.position = position
            events.append(event)
        return events

    def known(self, schedule: str) -> ScheduleRecord:
        """Return a schedule, also a removed one.

        Raises:
            ScheduleError: there never was one of this id.
        """
        record = self.schedules.get(schedule)
        if record is None:
            present = sorted(
                name for name, each in self.schedules.items() if each.stage != "removed"
            )
            raise ScheduleError(
                "unknown_schedule",
                f"no schedule {schedule!r}; there are: {', '.join(present) or 'none yet'} "
                "(`atdp schedule add`)",
            )
        return record

    def next_events(
        self, bodies: Iterable[tuple[str, EventBody]], *, at: datetime, actor: str
    ) -> Sequence[ScheduleEvent]:
        """Number bodies, each with its stream, as the events that follow those of the book."""
        numbers: dict[str, int] = {}
        events = []
        for stream, body in bodies:
            numbers[stream] = numbers.get(stream, self.numbers.get(stream, 0)) + 1
            events.append(
                ScheduleEvent(stream=stream, number=numbers[stream], at=at, actor=actor, body=body)
            )
        return events

    def _fold(self, event: ScheduleEvent) -> None:
        self.numbers[event.stream] = event.number
        body = event.body
        match body:
            case RunRequested():
                self._requested(event, body)
            case RunStarted() | RunEnded():
                self._moved_on(event, body)
            case KeyTaken():
                self.keys[body.schedule, body.key] = body.logical_time
            case ScheduleDefined():
                self._defined(event, body.definition)
            case RefusedDefinition():
                self._defined(event, body)
            case _:
                self._changed(event, body)

    def _requested(self, event: ScheduleEvent, body: RunRequested) -> None:
        record = self.schedules[body.schedule]
        record.runs[body.logical_time] = Run(
            schedule=body.schedule,
            logical_time=body.logical_time,
            version=body.version,
            cause=body.cause,
            stage="requested",
            requested_at=event.at,
            actor=event.actor,
            candidate=body.candidate,
            key=body.key,
        )
        record.open_times.add(body.logical_time)
        if body.cause == "clock":
            record.clock_from = max(record.clock_from, body.logical_time)
        if body.position is not None:
            record.data_from = max(record.data_from or 0, body.position)

    def _moved_on(self, event: ScheduleEvent, body: RunStarted | RunEnded) -> None:
        schedule, _, moment = event.stream.removeprefix("run/").rpartition("@")
        record = self.schedules[schedule]
        logical_time = datetime.fromisoformat(moment)
        run = record.runs[logical_time]
        if isinstance(body, RunStarted):
            record.runs[logical_time] = replace(run, stage="running")
            return
        record.runs[logical_time] = replace(
            run, stage="completed", ended_at=event.at, outcome=body.outcome
        )
        record.open_times.discard(logical_time)

    def _changed(self, event: ScheduleEvent, body: ScheduleChange) -> None:
        record = self.schedules[event.stream.removeprefix("schedule/")]
        match body:
            case TicksSkipped():
                record.clock_from = max(record.clock_from, body.last)
                return
            case DataObserved():
                record.data_from = body.position
                return
            case SchedulePaused():
                record.stage = "paused"
            case ScheduleResumed():
                record.stage = "active"
                record.clock_from = record.data_since = event.at
                record.data_from = None
            case ScheduleRemoved():
                record.stage = "removed"
            case _:
                assert_never(body)
        record.changed_at, record.actor = event.at, event.actor

    def _defined(self, event: ScheduleEvent, definition: StoredDefinition) -> None:
        record = self.schedules.get(definition.id)
        if record is None:
            self.schedules[definition.id] = ScheduleRecord(
                definitions=[definition],
                stage="active",
                changed_at=event.at,
                actor=event.actor,
                clock_from=event.at,
                data_since=event.at,
            )
            return
        returns = record.stage == "removed"
        if returns or _differ(record.newest, definition, _CLOCK_FIELDS):
            record.clock_from = event.at
        if returns or _differ(record.newest, definition, _DATA_FIELDS):
            record.data_since, record.data_from = event.at, None
        record.definitions.append(definition)
        record.stage = "active" if returns else record.stage
        record.changed_at, record.actor = event.at, event.actor


def _differ(one: StoredDefinition, other: StoredDefinition, names: set[str]) -> bool:
    return _stored(one, names) != _stored(other, names)


def _stored(definition: StoredDefinition, names: set[str]) -> dict[str, object]:
    if isinstance(definition, RefusedDefinition):
        return {name: definition.fields.get(name) for name in names}
    return definition.model_dump(mode="json", include=names)
