"""The spelling of an attribute's value: its form in OTLP, and the order of the keys inside.

Structured values such as messages stand as OTLP lists and objects or as JSON text. Serializers
write all objects of one kind with the keys in one order, so that a short list of orders gives back
the text of any number of messages.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

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


FORMS: Final[Mapping[str, Callable[[Any], AnyValue]]] = {
    "otlp": any_value,
    "number": lambda value: {"intValue": value},
    "json": _text_form("json", ascii_only=False),
    "spaced_json": _text_form("spaced_json", ascii_only=False),
    "ascii_json": _text_form("json", ascii_only=True),
    "spaced_ascii_json": _text_form("spaced_json", ascii_only=True),
}
DEFAULT_FORM: Final = "otlp"


def key_orders(value: Any) -> list[list[str]]:
    """Return the order of the keys of each kind of object inside; one kind has one set of keys.

    The order is that of the first object of a kind.
    """
    orders: dict[frozenset[str], list[str]] = {}
    for keys in _keys_inside(value):
        orders.setdefault(frozenset(keys), keys)
    return [keys for keys in orders.values() if len(keys) > 1]


def in_order(value: Any, orders: Sequence[Sequence[str]]) -> Any:
    """Return an equal value whose objects have their keys in the orders that are given for them."""
    return _in_order(value, {frozenset(keys): keys for keys in orders})


def _in_order(value: Any, orders: Mapping[frozenset[str], Sequence[str]]) -> Any:
    if isinstance(value, list):
        return [_in_order(item, orders) for item in value]
    if not isinstance(value, dict):
        return value
    return {key: _in_order(value[key], orders) for key in orders.get(frozenset(value), value)}


def _keys_inside(value: Any) -> Iterator[list[str]]:
    if isinstance(value, dict):
        yield list(value)
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _keys_inside(item)
