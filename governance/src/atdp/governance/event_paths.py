"""Every place of an event, by its path without list indexes.

The places are read from the newest Avro schema: fields, records and lists. `observation.messages`
is a list, `observation.messages.parts.text` a string below it. Policies name places by these paths,
so each place also states the value that it has after a policy empties it.
"""

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from atdp.schemas import (
    KIND_OF_BODY,
    AvroArray,
    AvroEnum,
    AvroNullable,
    AvroPrimitive,
    AvroRecord,
    AvroType,
    newest,
)

_BODIES = frozenset(KIND_OF_BODY.values())


class _NotEmptiable:
    """Marks a place that must hold a value."""


NOT_EMPTIABLE: Final = _NotEmptiable()


@dataclass(frozen=True, slots=True)
class EventPath:
    """One place of an event.

    `finding_path` is the path as findings name it, with `[*]` after each list. `kind` is the Avro
    type, `record`, `array` and `enum` included; a list of strings or numbers has the type of its
    items. `empty` is the value after the place is emptied, or `NOT_EMPTIABLE`.
    """

    finding_path: str
    kind: str
    empty: Any

    @property
    def is_leaf(self) -> bool:
        """True for a place that holds values, not other places."""
        return self.kind not in {"record", "array"}


@functools.cache
def event_paths() -> Mapping[str, EventPath]:
    """Return all places by path."""
    places: dict[str, EventPath] = {}
    for place in _fields(newest("event").tree, ""):
        # A list and the records in it share a path. The list comes first; it is what a policy
        # can empty.
        places.setdefault(place.finding_path.replace("[*]", ""), place)
    return places


def containers(path: str) -> Iterator[str]:
    """Yield the paths of the places that contain `path`, outermost first."""
    parts = path.split(".")
    for length in range(1, len(parts)):
        yield ".".join(parts[:length])


@functools.cache
def leaves_below(path: str) -> tuple[str, ...]:
    """Return the paths of the leaves at or below `path`."""
    return tuple(
        each
        for each, place in event_paths().items()
        if place.is_leaf and (each == path or each.startswith(f"{path}."))
    )


def _fields(record: AvroRecord, path: str) -> Iterator[EventPath]:
    """Yield every place below a record."""
    for field in record.fields:
        yield from _places(field.type, f"{path}.{field.name}" if path else field.name)


def _places(item: AvroType, path: str) -> Iterator[EventPath]:
    """Yield the place at `path`, which has the type `item`, and every place below it."""
    nullable = isinstance(item, AvroNullable)
    if isinstance(item, AvroNullable):
        item = item.item
    match item:
        case AvroRecord():
            # The body that the event's kind names must be present. A record that is not nullable
            # is emptied field by field.
            yield _place(path, "record", nullable and path not in _BODIES, NOT_EMPTIABLE)
            yield from _fields(item, path)
        case AvroArray(items=AvroRecord() as record):
            yield _place(path, "array", nullable, [])
            yield from _fields(record, f"{path}[*]")
        case AvroArray(items=AvroPrimitive(name=kind)):
            # A list of strings or numbers is a leaf: its items have no path of their own.
            yield _place(f"{path}[*]", kind, nullable, [])
        case AvroEnum(symbols=symbols):
            yield _place(
                path, "enum", nullable, "unknown" if "unknown" in symbols else NOT_EMPTIABLE
            )
        case AvroPrimitive(name=kind):
            yield _place(path, kind, nullable, "" if kind == "string" else NOT_EMPTIABLE)
        case _:
            raise TypeError(f"{path} has a type that the event contract does not use")


def _place(path: str, kind: str, can_be_null: bool, empty_if_not_null: Any) -> EventPath:
    return EventPath(path, kind, None if can_be_null else empty_if_not_null)
