"""The remainder of a JSON document: everything that the fields of an event do not say.

A converter reads a piece of a document into fields, writes the piece back from these fields alone,
and keeps the difference between both in `ext_json`: `remainder_of(written, source)`. Writing the
document later is `restore(written, remainder)`. A document therefore survives whole, whatever it
holds: unknown keys, nulls, values of a wrong type. The fields stay the truth about what they hold,
because the remainder repeats nothing that they say.

The remainder of an object has the keys of the source:

- a key that the fields do not give has its value from the source, as it is;
- a key whose value is an object or a list in both has the remainder of that value, the entries of a
  list by index (`{"0": …}`); a list of plain values is replaced whole;
- `{"$value": …}` replaces a value (or stands for a value that would otherwise look like a
  remainder), and `{"$absent": true}` removes a key that the source does not have.
"""

import json
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from atdp.adapters.documents.json_text import ordered_json

Json: TypeAlias = Any
"""A JSON value as `json.loads` returns it."""

VALUE: Final = "$value"
ABSENT: Final = "$absent"


def remainder_of(written: Json, source: Json) -> dict[str, Json]:
    """Return what `restore` needs to turn `written` into `source`; empty when they are equal."""
    if same_json(written, source):
        return {}
    if isinstance(written, dict) and isinstance(source, dict):
        return _of_entries(written, source)
    if isinstance(written, list) and isinstance(source, list) and _nests(source):
        return _of_entries(_by_index(written), _by_index(source))
    return {VALUE: source}


def restore(written: Json, remainder: Mapping[str, Json]) -> Json:
    """Return the source that `remainder` was computed from."""
    if VALUE in remainder:
        return remainder[VALUE]
    if isinstance(written, dict):
        return _restore_entries(written, remainder)
    if isinstance(written, list):
        return list(_restore_entries(_by_index(written), remainder).values())
    return written


def remainder_json(written: Json, source: Json) -> str | None:
    """Return the remainder as an `ext_json` value, keys in their order; None if nothing remains."""
    remainder = remainder_of(written, source)
    return ordered_json(remainder) if remainder else None


def restore_from(written: Json, ext_json: str | None) -> Json:
    """Return the source that `remainder_json` gave `ext_json` for."""
    return written if ext_json is None else restore(written, json.loads(ext_json))


def same_json(one: Json, other: Json) -> bool:
    """Return whether two JSON values are equal; 1, 1.0 and true are three values."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same_json(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same_json, one, other))
    return type(one) is type(other) and repr(one) == repr(other)


def _of_entries(written: Mapping[str, Json], source: Mapping[str, Json]) -> dict[str, Json]:
    """Return the remainder entry by entry, or the whole source where its keys look like marks."""
    remainder = {
        key: {VALUE: value} if _looks_like_mark(value) else value
        for key, value in source.items()
        if key not in written
    }
    for key, value in written.items():
        if key not in source:
            remainder[key] = {ABSENT: True}
        elif not same_json(value, source[key]):
            remainder[key] = remainder_of(value, source[key])
    return {VALUE: dict(source)} if _looks_like_mark(remainder) else remainder


def _restore_entries(written: Mapping[str, Json], remainder: Mapping[str, Json]) -> dict[str, Json]:
    source = {
        key: restore(value, remainder[key]) if key in remainder else value
        for key, value in written.items()
        if remainder.get(key) != {ABSENT: True}
    }
    for key, value in remainder.items():
        if key not in written:
            source[key] = value[VALUE] if _looks_like_mark(value) else value
    return source


def _nests(items: list[Json]) -> bool:
    return any(isinstance(item, dict | list) for item in items)


def _by_index(items: list[Json]) -> dict[str, Json]:
    return {str(index): item for index, item in enumerate(items)}


def _looks_like_mark(value: Json) -> bool:
    return isinstance(value, dict) and (VALUE in value or ABSENT in value)
