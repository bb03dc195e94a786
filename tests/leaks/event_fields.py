"""Event records with one planted value, otherwise as small as the contract allows."""

import functools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from atdp.schemas import (
    KIND_OF_BODY,
    AvroArray,
    AvroEnum,
    AvroNullable,
    AvroPrimitive,
    AvroRecord,
    AvroType,
    check_record,
    newest,
)

NOW = datetime(2026, 11, 21, tzinfo=UTC)
TENANT = "acme"
_BODIES = tuple(KIND_OF_BODY.values())
_FIXED: dict[str, Any] = {
    "event_id": "0192f0c4-7d5a-7cc3-98f1-5a1d0b2c3d4e",
    "tenant_id": TENANT,
    "trajectory_id": "t-a",
    "producer_id": "p-a",
    "seq": 0,
    "step": 0,
    "attempt": 0,
    "occurred_at": NOW,
    "cost.currency": "USD",
    "reward.value": 0.5,
    "feedback.value": 0.5,
    "annotation.value_json": "{}",
    "gap.from_seq": 1,
    "gap.to_seq": 2,
    "action.generation.prompt_prefix_tokens": 0,
    "action.generation.policy_versions": [],
}
_UNPLANTED = {"tenant_id"}
"""The tenant must be that of the producer's key."""
_UNPLANTED_NUMBERS = {"seq", "gap.from_seq", "gap.to_seq"}
"""Positions within the log: governance could not change them and keep the order of events."""
_DURATIONS_AND_SIZES = {"latency_us", "time_to_first_token_us", "size_bytes"}
"""Nine digits are an ordinary duration or size there."""
_PRIMITIVES: dict[str, Any] = {
    "string": "word",
    "int": 0,
    "long": 0,
    "double": 0.5,
    "float": 0.5,
    "boolean": True,
    "bytes": b"x",
}


@dataclass(frozen=True, slots=True)
class EventField:
    """A field of an event of one kind, by its path without indexes. `avro` is its type."""

    kind: str
    path: str
    avro: str

    @property
    def is_json(self) -> bool:
        """True for a field that must hold JSON."""
        return self.path.endswith("_json")

    @property
    def holds_object(self) -> bool:
        """True for a field that must hold a JSON object."""
        return self.path.endswith(("ext_json", "metadata_json"))

    @property
    def holds_small_measure(self) -> bool:
        """True for durations and sizes."""
        return self.path.rpartition(".")[2] in _DURATIONS_AND_SIZES


@functools.cache
def string_fields() -> Sequence[EventField]:
    """Return every string field of every kind of event that may hold any text.

    Not the event's id, for example: governance refuses events in which it is no UUID.
    """
    return [
        each
        for each in _fields()
        if each.avro == "string" and each.path not in _UNPLANTED and _keeps_contract(each, "word")
    ]


@functools.cache
def line_fields() -> Sequence[EventField]:
    """Return the string fields that may hold several lines."""
    return [each for each in string_fields() if _keeps_contract(each, "two\nlines")]


@functools.cache
def number_fields() -> Sequence[EventField]:
    """Return the fields of numbers that are neither times nor positions in the log."""
    return [
        each
        for each in _fields()
        if each.avro in {"long", "double"} and each.path not in _UNPLANTED_NUMBERS
    ]


@functools.cache
def part_fields() -> Sequence[EventField]:
    """Return the text fields of parts of messages."""
    return [each for each in string_fields() if each.path.endswith(".parts.text")]


def planted_record(field: EventField, value: Any) -> dict[str, Any]:
    """Return a record with `value` at `field`. A list of values gives several parts."""
    record: dict[str, Any] = _filled(newest("event").tree, "", field, value)
    record["kind"] = field.kind
    return record


def _keeps_contract(field: EventField, text: str) -> bool:
    value = json.dumps({"a": text}) if field.is_json else text
    return not check_record(planted_record(field, value), now=NOW)


@functools.cache
def _fields() -> Sequence[EventField]:
    found = []
    for path, avro in _leaves(newest("event").tree, ""):
        body = path.partition(".")[0]
        kinds = (body,) if body in _BODIES else _BODIES
        found += [EventField(kind, path, avro) for kind in kinds]
    return found


def _leaves(item: AvroType, path: str) -> list[tuple[str, str]]:
    match item:
        case AvroNullable(item=inner) | AvroArray(items=inner):
            return _leaves(inner, path)
        case AvroRecord(fields=fields):
            return [
                leaf
                for field in fields
                for leaf in _leaves(field.type, f"{path}.{field.name}" if path else field.name)
            ]
        case AvroPrimitive(logical_type=None, name=name):
            return [(path, name)]
        case _:
            return []


def _filled(item: AvroType, path: str, field: EventField, value: Any) -> Any:
    on_the_way = f"{field.path}.".startswith(f"{path}.") or path == field.kind or not path
    match item:
        case _ if path == field.path and not isinstance(item, AvroArray | AvroNullable):
            return value
        case _ if path == "action.type":
            return _action_type(field)
        case AvroNullable(item=inner):
            needed = on_the_way or path in _needed(field)
            return _filled(inner, path, field, value) if needed else None
        case _ if path.endswith("target_kind"):
            return "event" if field.path.endswith("target_event_id") else "trajectory"
        case _ if path in _FIXED and not field.path.startswith(f"{path}."):
            return _FIXED[path]
        case AvroRecord(fields=fields):
            return {
                each.name: _filled(
                    each.type, f"{path}.{each.name}" if path else each.name, field, value
                )
                for each in fields
            }
        case AvroArray(items=items) if path == field.path:
            return value if isinstance(value, list) else [value]
        case AvroArray(items=items):
            return _items(items, path, field, value) if on_the_way else []
        case AvroEnum(symbols=symbols):
            return next(each for each in symbols if each != "unknown")
        case AvroPrimitive(logical_type="timestamp-micros"):
            return NOW
        case AvroPrimitive(name=name):
            return _PRIMITIVES[name]
    raise TypeError(path)


def _items(items: AvroType, path: str, field: EventField, value: Any) -> list[Any]:
    # A list of values stands in several parts of one message; lists of lists in several messages.
    if not isinstance(value, list):
        return [_filled(items, path, field, value)]
    if path.endswith(".parts") and isinstance(value[0], str):
        return [_filled(items, path, field, each) for each in value]
    if path.endswith(".messages") and isinstance(value[0], list):
        return [_filled(items, path, field, each) for each in value]
    return [_filled(items, path, field, value)]


def _action_type(field: EventField) -> str:
    body = field.path.split(".")[1] if field.path.startswith("action.") else ""
    return "message" if body in {"", "error", "type"} else body


def _needed(field: EventField) -> set[str]:
    """Return the nullable places that the contract demands besides the field itself."""
    needed = {f"{field.kind}.value", "gap.from_seq", "gap.to_seq", "occurred_at"}
    if field.path.endswith("prompt_prefix_event_id"):
        needed.add("action.generation.prompt_prefix_tokens")
    if field.kind == "action":
        kind = _action_type(field)
        needed.add("action.message" if kind == "generation" else f"action.{kind}")
    return needed
