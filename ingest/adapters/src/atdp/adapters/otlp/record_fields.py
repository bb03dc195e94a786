"""The fields of a span or log record itself: ids, times, status."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Protocol

from atdp.adapters.documents.times import nanos_text
from atdp.adapters.documents.typed import as_object, as_text, without_none
from atdp.schemas import Action, Body, Error, InternalState, Outcome, Status

_OK, _ERROR = 1, 2


class RecordEvent(Protocol):
    """The fields of an event that a record is written from."""

    @property
    def body(self) -> Body:
        """See `Event`."""
        ...

    @property
    def status(self) -> Status:
        """See `Event`."""
        ...

    @property
    def trace_id(self) -> str | None:
        """See `Event`."""
        ...

    @property
    def span_id(self) -> str | None:
        """See `Event`."""
        ...

    @property
    def parent_span_id(self) -> str | None:
        """See `Event`."""
        ...

    @property
    def occurred_at(self) -> datetime | None:
        """See `Event`."""
        ...

    @property
    def occurred_at_nanos(self) -> int | None:
        """See `Event`."""
        ...

    @property
    def ended_at(self) -> datetime | None:
        """See `Event`."""
        ...

    @property
    def ended_at_nanos(self) -> int | None:
        """See `Event`."""
        ...


def write_record(event: RecordEvent, *, is_log: bool) -> dict[str, Any]:
    """Return what the fields of an event say of its record, without the attributes."""
    began = event.occurred_at and nanos_text(event.occurred_at, event.occurred_at_nanos)
    ids = without_none(traceId=event.trace_id, spanId=event.span_id)
    name = event.body.text if isinstance(event.body, InternalState) else None
    if is_log:
        return {**ids, **without_none(timeUnixNano=began, eventName=name)}
    ended = event.ended_at and nanos_text(event.ended_at, event.ended_at_nanos)
    return {
        **ids,
        **without_none(
            parentSpanId=event.parent_span_id,
            name=name,
            startTimeUnixNano=began,
            endTimeUnixNano=ended,
            status=_status(event),
        ),
    }


def read_status(record: Mapping[str, Any]) -> Status:
    """Return the status of a span; one that was not set is unknown."""
    code = as_object(record.get("status")).get("code")
    if code in (_ERROR, "STATUS_CODE_ERROR"):
        return "error"
    return "ok" if code in (_OK, "STATUS_CODE_OK") else "unknown"


def failure_message(record: Mapping[str, Any]) -> str | None:
    """Return the message of a span's status."""
    return as_text(as_object(record.get("status")).get("message"))


def _status(event: RecordEvent) -> dict[str, Any] | None:
    match event.status:
        case "ok":
            return {"code": _OK}
        case "error":
            error = error_of(event.body)
            return {"code": _ERROR, **without_none(message=error.message if error else None)}
        case _:
            return None


def error_of(body: Body) -> Error | None:
    """Return the error that a body carries."""
    return body.error if isinstance(body, Action | Outcome) else None
