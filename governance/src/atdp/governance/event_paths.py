"""Every place of an event, read from the newest Avro schema: fields, records, lists, by path without indexes.

`observation.messages` is a list, `observation.messages.parts.text` a string below it. A path may be
written in a policy, so what a place becomes when it is emptied is said here, too.
"""

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from atdp.schemas import KIND_OF_BODY, newest

_BODIES = frozenset(KIND_OF_BODY.values())


class _Cannot:
    """Marks a place that cannot be empty."""


CANNOT: Final = _Cannot()


@dataclass(frozen=True, slots=True)
class EventPath:
    """One place. `shown`: as findings name it, with `[*]` for lists.

    `kind`: Avro type, `record` and `array` included.

    `empty`: what stands there when its content is removed, `CANNOT` when something must.
    """

    shown: str
    kind: str
    nullable: bool
    empty: Any

    @property
    def is_leaf(self) -> bool:
        """Whether it holds values, not other places."""
        return self.kind not in {"record", "array"}


@functools.cache
def event_paths() -> Mapping[str, EventPath]:
    """All places by path."""
    found: dict[str, EventPath] = {}
    for path in _paths(newest("event").definition, "", {}):
        # A list and the records in it share a path; the list comes first, and is what can be
        # emptied.
        found.setdefault(path.shown.replace("[*]", ""), path)
    return found


def containers(path: str) -> Iterator[str]:
    """The paths that hold `path`, outermost first."""
    parts = path.split(".")
    for length in range(1, len(parts)):
        yield ".".join(parts[:length])


@functools.cache
def leaves_below(path: str) -> tuple[str, ...]:
    """The leaves at or below a path."""
    return tuple(
        each
        for each, place in event_paths().items()
        if place.is_leaf and (each == path or each.startswith(f"{path}."))
    )


def _paths(schema: Any, shown: str, named: dict[str, Any]) -> Iterator[EventPath]:
    """`schema` and everything below it; a named type may be used before and after its definition."""
    nullable = False
    if isinstance(schema, list):
        nullable = "null" in schema
        schema = next(branch for branch in schema if branch != "null")
    if isinstance(schema, str) and schema in named:
        schema = named[schema]
    if isinstance(schema, str):
        yield EventPath(
            shown, schema, nullable, None if nullable else "" if schema == "string" else CANNOT
        )
        return
    kind = schema["type"]
    if kind == "record":
        named[schema["name"]] = schema
        if shown:
            # The body that the kind names must be there; of other records, the fields are emptied
            # one by one.
            yield EventPath(
                shown, kind, nullable, None if nullable and shown not in _BODIES else CANNOT
            )
        for field in schema["fields"]:
            yield from _paths(
                field["type"], f"{shown}.{field['name']}" if shown else field["name"], named
            )
    elif kind == "array":
        items = list(_paths(schema["items"], shown + "[*]", named))
        # A list of strings or numbers is a leaf of its own: its items have no other path.
        if items[0].kind != "record":
            yield EventPath(items[0].shown, items[0].kind, nullable, None if nullable else [])
        else:
            yield EventPath(shown, kind, nullable, None if nullable else [])
            yield from items[1:]
    else:
        if kind == "enum":
            named[schema["name"]] = schema
        empty: Any = CANNOT
        if nullable:
            empty = None
        elif kind == "enum" and "unknown" in schema["symbols"]:
            empty = "unknown"
        yield EventPath(shown, kind, nullable, empty)
