"""Event records with a canary in every string that the schema has.

A canary is a value that must not come out of governance.
"""

import json
from collections.abc import Callable
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
    newest,
)

NOW = datetime(2026, 11, 21, tzinfo=UTC)
CANARY_HOST = "canary.org"
KINDS = tuple(KIND_OF_BODY.values())

Plant = Callable[[int], str]


_PRIMITIVES: dict[str, Any] = {
    "int": 1,
    "long": 1,
    "double": 0.5,
    "float": 0.5,
    "boolean": True,
    "bytes": b"x",
}


def record(kind: str, plant: Plant) -> dict[str, Any]:
    """Return a record of `kind` with every optional field set; `plant(n)` gives the n-th string.

    Only the tenant and the enums are not planted.
    """
    counter = iter(range(10_000))
    filled: dict[str, Any] = _filled(newest("event").tree, lambda: plant(next(counter)))
    filled.update({other: None for other in KINDS if other != kind})
    filled["tenant_id"] = "acme"
    filled["kind"] = kind
    return filled


def _filled(item: AvroType, plant: Callable[[], str]) -> Any:
    match item:
        case AvroNullable(item=inner):
            return _filled(inner, plant)
        case AvroRecord(fields=fields):
            return {field.name: _filled(field.type, plant) for field in fields}
        case AvroEnum(symbols=symbols):
            return symbols[0]
        case AvroArray(items=items):
            return [_filled(items, plant)]
        case AvroPrimitive(name="string"):
            return plant()
        case AvroPrimitive(logical_type="timestamp-micros"):
            return NOW
        case AvroPrimitive(name=name):
            return _PRIMITIVES[name]


def address(number: int) -> str:
    return f"c{number}@{CANARY_HOST}"


def in_json(depth: int) -> Plant:
    """Return a plant with the canary `depth` JSON strings deep, as a value and as a key."""

    def plant(number: int) -> str:
        text = json.dumps({"note": address(number), address(number + 5000): [1, "ok"]})
        for _ in range(depth - 1):
            text = json.dumps({"inner": [text]})
        return text

    return plant


ENCODINGS: dict[str, Plant] = {
    "plain": address,
    "in prose": lambda number: f"Please write to {address(number)}, thanks.",
    "json": in_json(1),
    "json 8 deep": in_json(8),
    "json string": lambda number: json.dumps(address(number)),
    "escaped": lambda number: '{"note": "' + address(number).replace("@", "\\u0040") + '"}',
    "repeated key": lambda number: '{"note": "' + address(number) + '", "note": "ok"}',
    "python dict": lambda number: repr(
        {"note": address(number), "email": f"user{number} {CANARY_HOST}"}
    ),
    "cut off json": lambda number: (
        '{"email": "user' + str(number) + " " + CANARY_HOST + '", "x": "'
    ),
    "under a key with a rule": lambda number: json.dumps(
        {"user": {"e-mail": f"user{number} at {CANARY_HOST}"}}
    ),
    "list under a key with a rule": lambda number: json.dumps(
        {"email": [f"user{number} at {CANARY_HOST}"]}
    ),
    "secret": lambda number: f"export API_KEY={CANARY_HOST}-{number}-abcdef",
    "url": lambda number: f"postgres://u{number}:{CANARY_HOST}@db/x",
}
