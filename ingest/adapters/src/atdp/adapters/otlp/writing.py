"""Events as the OTLP document that they came from."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from atdp.adapters.documents.json_text import UnreadableDocument
from atdp.adapters.documents.remainder import restore
from atdp.adapters.otlp.attributes import write_attributes
from atdp.adapters.otlp.record_fields import write_record
from atdp.adapters.otlp.records import Position, with_records
from atdp.adapters.otlp.vocabulary import Operation, Vocabulary
from atdp.schemas import (
    Action,
    Event,
    Message,
    Observation,
    Outcome,
    TrajectoryStarted,
    extend_context,
)


def otlp_from_events(events: Iterable[Event], vocabulary: Vocabulary) -> dict[str, Any]:
    """Return the document of events that were read from one OTLP document.

    Events of one trajectory must follow each other in the order of `seq`.

    Raises:
        UnreadableDocument: the events have no start of a trajectory that holds the document's rest.
    """
    rest: str | None = None
    traces: dict[str, list[Event]] = {}
    for event in events:
        traces.setdefault(event.trajectory_id, []).append(event)
        if isinstance(event.body, TrajectoryStarted):
            rest = rest or event.ext_json
    if rest is None:
        raise UnreadableDocument("the events hold no rest of an OTLP document")
    records = [record for trace in traces.values() for record in _records(trace, vocabulary)]
    return with_records(json.loads(rest), records)


def _records(trace: Sequence[Event], vocabulary: Vocabulary) -> list[tuple[Position, Any]]:
    groups: dict[str, list[Event]] = {}
    context: tuple[Message, ...] = ()
    shown: dict[str, tuple[Message, ...]] = {}
    tools: dict[str, str] = {}
    for event in trace:
        context = extend_context(context, event.body)
        place = event.source_step_id
        if place is not None:
            groups.setdefault(place, []).append(event)
        if place is not None and isinstance(event.body, Observation):
            if event.body.context_base is not None:
                shown[place] = context
            if event.body.tools_hash is not None and event.body.tools_json is not None:
                tools[event.body.tools_hash] = event.body.tools_json
    return [
        (_position(place), _record(_operation(group, shown.get(place), tools), group, vocabulary))
        for place, group in groups.items()
    ]


def _position(place: str) -> Position:
    signal, resource, scope, index = place.split("/")
    return signal, int(resource), int(scope), int(index)


def _own(group: Sequence[Event]) -> Event:
    """Return the record's own event, which is the one with `ext_json`."""
    return next(event for event in group if event.ext_json is not None)


def _record(operation: Operation, group: Sequence[Event], vocabulary: Vocabulary) -> dict[str, Any]:
    own = _own(group)
    kept = json.loads(own.ext_json or "{}")
    is_log = (own.source_step_id or "").startswith("resourceLogs")
    record: dict[str, Any] = restore(write_record(own, is_log=is_log), kept.get("record", {}))
    if not kept.get("no_attributes"):
        record["attributes"] = write_attributes(vocabulary.write(operation), kept)
    return record


def _operation(
    group: Sequence[Event], shown: tuple[Message, ...] | None, tools: Mapping[str, str]
) -> Operation:
    own = _own(group)
    others = [event.body for event in group if event is not own]
    hashes = [body.tools_hash for body in others if isinstance(body, Observation)]
    tools_hash = next((each for each in hashes if each is not None), None)
    return Operation(
        body=own.body,
        shown=shown,
        tools=None if tools_hash is None else json.loads(tools[tools_hash]),
        choices=tuple(body for body in others if isinstance(body, Action)),
        outcome=next((body for body in others if isinstance(body, Outcome)), None),
        usage=own.usage,
        cost=own.cost,
    )
