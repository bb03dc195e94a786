"""The events of schedules, as immutable values with one JSON form.

A schedule and a run are a stream of events each. The names of the classes and of their fields are
stored; `SCHEMA` is the version of the forms below.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias, get_args

from pydantic import TypeAdapter, ValidationError

from atdp.schemas import canonical_json
from atdp.stack.errors import ScheduleError
from atdp.stack.schedules.refused_definition import RefusedDefinition
from atdp.stack.schedules.schedule_definition import ScheduleDefinition, problems_of
from atdp.stack.schedules.schedule_state import RunCause, RunOutcome, run_id

SCHEMA = 1
"""Version of the event forms in this module."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ScheduleDefined:
    """A schedule was added, or its definition was changed."""

    definition: ScheduleDefinition


@dataclass(frozen=True, kw_only=True, slots=True)
class SchedulePaused:
    """Clock and data request no further runs."""

    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ScheduleResumed:
    """Clock and data request runs again, from now on."""

    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ScheduleRemoved:
    """The schedule was removed; its runs stay."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DataObserved:
    """The data up to `position` are the start from which a data trigger counts."""

    position: int


@dataclass(frozen=True, kw_only=True, slots=True)
class TicksSkipped:
    """Times of the clock that get no run, by the catch-up policy; both ends are inclusive."""

    first: datetime
    last: datetime
    count: int


@dataclass(frozen=True, kw_only=True, slots=True)
class RunRequested:
    """A run is to be made; the first event of its stream, so that there is one."""

    schedule: str
    logical_time: datetime
    version: int
    cause: RunCause
    position: int | None = None
    """Of the data that requested it; see `DataObserved`."""
    candidate: str | None = None
    key: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class RunStarted:
    """The parts of the run began."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunEnded:
    """The run is complete."""

    outcome: RunOutcome


@dataclass(frozen=True, kw_only=True, slots=True)
class KeyTaken:
    """An idempotency key names this run; the only event of its stream."""

    schedule: str
    key: str
    logical_time: datetime


ScheduleChange: TypeAlias = (
    SchedulePaused | ScheduleResumed | ScheduleRemoved | DataObserved | TicksSkipped
)
"""Events of a schedule's own stream after its definition."""
EventBody: TypeAlias = (
    ScheduleDefined | ScheduleChange | RunRequested | RunStarted | RunEnded | KeyTaken
)

_ADAPTERS: dict[str, TypeAdapter[EventBody]] = {
    each.__name__: TypeAdapter(each) for each in get_args(EventBody)
}


@dataclass(frozen=True, kw_only=True, slots=True)
class ScheduleEvent:
    """One event. `number` counts from 1 without gaps in its stream; `at` is an aware UTC time.

    The body is a `RefusedDefinition` where the stored event defines a schedule as this version
    refuses it; such an event is read and never written.
    """

    stream: str
    number: int
    at: datetime
    actor: str
    body: EventBody | RefusedDefinition

    @property
    def type(self) -> str:
        """The name of the body's type."""
        return type(self.body).__name__

    def state(self) -> bytes:
        """Return the stored form, without stream, number and type."""
        if isinstance(self.body, RefusedDefinition):
            raise TypeError(f"{self.stream}: a refused definition is read and never written")
        fields = _ADAPTERS[self.type].dump_python(self.body, mode="json")
        at = self.at.isoformat(timespec="microseconds")
        return canonical_json(
            {"schema": SCHEMA, "at": at, "actor": self.actor, "body": fields}
        ).encode()


def stored_event(stream: str, number: int, name: str, state: bytes) -> ScheduleEvent:
    """Return the event of its stored form.

    Raises:
        ScheduleError: this version of the module does not know the form.
    """
    try:
        fields: Mapping[str, Any] = json.loads(state)
        if fields["schema"] != SCHEMA:
            raise ValueError(f"schema {fields['schema']}")
        return ScheduleEvent(
            stream=stream,
            number=number,
            at=datetime.fromisoformat(fields["at"]),
            actor=fields["actor"],
            body=_stored_body(stream, name, fields["body"]),
        )
    except (ValueError, KeyError, TypeError, ValidationError) as error:
        raise ScheduleError(
            "store",
            f"event {number} of {stream} cannot be read by this version of atdp ({error!r:.200}); "
            "use the version that wrote it, or a later one",
        ) from error


def _stored_body(stream: str, name: str, fields: dict[str, Any]) -> EventBody | RefusedDefinition:
    if name != ScheduleDefined.__name__:
        return _ADAPTERS[name].validate_python(fields)
    defined = fields["definition"]
    try:
        return ScheduleDefined(definition=ScheduleDefinition.model_validate(defined))
    except ValidationError as error:
        schedule = stream.removeprefix(schedule_stream(""))
        return RefusedDefinition(id=schedule, fields=dict(defined), problem=problems_of(error))


def schedule_stream(schedule: str) -> str:
    """Return the name of a schedule's stream."""
    return f"schedule/{schedule}"


def run_stream(schedule: str, logical_time: datetime) -> str:
    """Return the name of a run's stream."""
    return f"run/{run_id(schedule, logical_time)}"


def key_stream(schedule: str, key: str) -> str:
    """Return the name of an idempotency key's stream."""
    return f"key/{schedule}/{key}"
