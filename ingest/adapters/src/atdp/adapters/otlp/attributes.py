"""The attributes of a span or log record: plain values by name, and the form they were written in.

OTLP writes an attribute as `{"key": …, "value": {"stringValue": …}}`. Vocabularies work with plain
JSON values instead. `keep_attributes` compares what a vocabulary writes from fields with the
attributes of the source and keeps the difference; `write_attributes` gives the source's list back.
Structured values such as messages may stand as OTLP lists and objects or as JSON text; the form is
kept by name, and so is the order of the keys. A value whose spelling no form gives is kept raw.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from atdp.adapters.documents.remainder import (
    ABSENT,
    VALUE,
    remainder_of,
    restore,
    same_json,
)

AnyValue = Any
"""An attribute's value as OTLP writes it in JSON: an object with one key."""

_SEPARATORS = {"json": (",", ":"), "spaced_json": (", ", ": ")}


def _text_form(name: str, *, ascii_only: bool) -> Callable[[Any], AnyValue]:
    def write(value: Any) -> AnyValue:
        text = json.dumps(value, ensure_ascii=ascii_only, separators=_SEPARATORS[name])
        return {"stringValue": text}

    return write


def any_value(value: Any) -> AnyValue:
    """Return a plain value in OTLP's own form."""
    match value:
        case None:
            return {}
        case bool():
            return {"boolValue": value}
        case str():
            return {"stringValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
        case list():
            return {"arrayValue": {"values": [any_value(item) for item in value]}}
        case _:
            entries = [{"key": key, "value": any_value(item)} for key, item in value.items()]
            return {"kvlistValue": {"values": entries}}


_FORMS: Final[Mapping[str, Callable[[Any], AnyValue]]] = {
    "otlp": any_value,
    "number": lambda value: {"intValue": value},
    "json": _text_form("json", ascii_only=False),
    "spaced_json": _text_form("spaced_json", ascii_only=False),
    "ascii_json": _text_form("json", ascii_only=True),
    "spaced_ascii_json": _text_form("spaced_json", ascii_only=True),
}
_DEFAULT_FORM = "otlp"
_NOTHING: Final = object()
"""Stands for a remainder where nothing remains; None is a value like any other."""


def plain_value(value: AnyValue) -> Any:
    """Return the plain value of an attribute; a value of no known form is None."""
    if not isinstance(value, dict) or len(value) != 1:
        return None
    ((form, content),) = value.items()
    match form, content:
        case ("stringValue", str()) | ("boolValue", bool()) | ("doubleValue", float() | int()):
            return content
        case "intValue", int() | str():
            return _integer(content)
        case "arrayValue", {"values": list() as items}:
            return [plain_value(item) for item in items]
        case "kvlistValue", {"values": list() as entries}:
            return plain_attributes(entries)
        case _:
            return None


def plain_attributes(entries: object) -> dict[str, Any]:
    """Return the plain values of a list of attributes by key; the last of equal keys counts."""
    if not isinstance(entries, list):
        return {}
    return {
        entry["key"]: plain_value(entry.get("value"))
        for entry in entries
        if isinstance(entry, dict) and isinstance(entry.get("key"), str)
    }


def structured(value: Any) -> Any:
    """Return the value, or the one that it is the JSON text of."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value, parse_constant=float)
    except (ValueError, RecursionError):
        return value


def keep_attributes(written: Mapping[str, Any], entries: object) -> dict[str, Any]:
    """Return what `write_attributes` needs besides `written` to give `entries` back."""
    kept: dict[str, Any] = {}
    if not _is_regular(entries):
        return {"raw_attributes": entries}
    rests: dict[str, Any] = {key: {ABSENT: True} for key in written}
    for entry in entries:  # type: ignore[attr-defined]  # regular: a list
        key, value = entry["key"], entry["value"]
        form, rest = _form_and_rest(key, value, written)
        if form is None:
            kept.setdefault("raw", {})[key] = value
        elif form != _DEFAULT_FORM:
            kept.setdefault("forms", {})[key] = form
        rests.pop(key, None)
        if rest is not _NOTHING and form is not None:
            rests[key] = rest
    if rests:
        kept["attributes"] = rests
    order = [entry["key"] for entry in entries]  # type: ignore[attr-defined]
    if order != [entry["key"] for entry in write_attributes(written, kept)]:
        kept["order"] = order
    return kept


def write_attributes(written: Mapping[str, Any], kept: Mapping[str, Any]) -> Any:
    """Return the list of attributes that `kept` was computed from."""
    if "raw_attributes" in kept:
        return kept["raw_attributes"]
    forms, raw = kept.get("forms", {}), kept.get("raw", {})
    plain = restore(dict(written), kept.get("attributes", {}))
    values = {
        key: _FORMS[forms.get(key, _DEFAULT_FORM)](value)
        for key, value in plain.items()
        if key not in raw
    }
    values.update(raw)
    order = kept.get("order") or list(values)
    return [{"key": key, "value": values[key]} for key in order]


def _form_and_rest(key: str, value: AnyValue, written: Mapping[str, Any]) -> tuple[str | None, Any]:
    """Return the form that gives `value`, or None where no form does, and the remainder."""
    plain = plain_value(value)
    candidates = [plain]
    if key in written and isinstance(plain, str):
        candidates.insert(0, structured(plain))
    for candidate in candidates:
        rest: Any = _NOTHING
        full = candidate
        if key in written and not same_json(written[key], candidate):
            rest = remainder_of(written[key], candidate)
            full = restore(written[key], rest)
        elif key in written:
            full = written[key]
        else:
            marked = isinstance(candidate, dict) and (VALUE in candidate or ABSENT in candidate)
            rest = {VALUE: candidate} if marked else candidate
        for form, write in _FORMS.items():
            if _gives(write, full, value):
                return form, rest
    return None, _NOTHING


def _gives(write: Callable[[Any], AnyValue], plain: Any, value: AnyValue) -> bool:
    try:
        return same_json(write(plain), value)
    except (TypeError, ValueError):
        return False


def _is_regular(entries: object) -> bool:
    """Return whether the entries are a list of keys and values, each key once."""
    if not isinstance(entries, list):
        return False
    keys = [
        entry["key"]
        for entry in entries
        if isinstance(entry, dict)
        and entry.keys() == {"key", "value"}
        and isinstance(entry["key"], str)
    ]
    return len(keys) == len(entries) == len(set(keys)) and not {VALUE, ABSENT} & set(keys)


def _integer(content: int | str) -> int | None:
    if isinstance(content, bool):
        return None
    try:
        return int(content)
    except ValueError:
        return None
