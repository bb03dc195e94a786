"""Event records with a canary in every string that the schema has."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from atdp.schemas import KIND_OF_BODY, newest

NOW = datetime(2026, 11, 21, tzinfo=UTC)
CANARY_HOST = "canary.org"
KINDS = tuple(KIND_OF_BODY.values())

Plant = Callable[[int], str]


def record(kind: str, plant: Plant) -> dict[str, Any]:
    """A record of `kind` with every optional field set; `plant(n)` is the n-th string.

    Only tenant and enums are not planted.
    """
    counter = iter(range(10_000))
    schema = newest("event").definition
    filled: dict[str, Any] = _fill(schema, {}, lambda: plant(next(counter)))
    filled.update({other: None for other in KINDS if other != kind})
    filled["tenant_id"] = "acme"
    filled["kind"] = kind
    return filled


def _fill(schema: Any, named: dict[str, Any], plant: Callable[[], str]) -> Any:
    if isinstance(schema, list):
        schema = next(branch for branch in schema if branch != "null")
    if isinstance(schema, str):
        if schema in named:
            return _fill(named[schema], named, plant)
        simple: dict[str, Any] = {
            "int": 1,
            "long": 1,
            "double": 0.5,
            "float": 0.5,
            "boolean": True,
            "bytes": b"x",
        }
        return plant() if schema == "string" else simple[schema]
    kind = schema["type"]
    if kind == "record":
        named[schema["name"]] = schema
        return {field["name"]: _fill(field["type"], named, plant) for field in schema["fields"]}
    if kind == "enum":
        named[schema["name"]] = schema
        return schema["symbols"][0]
    if kind == "array":
        return [_fill(schema["items"], named, plant)]
    if schema.get("logicalType") == "timestamp-micros":
        return NOW
    return _fill(kind, named, plant)


def address(number: int) -> str:
    return f"c{number}@{CANARY_HOST}"


def in_json(depth: int) -> Plant:
    """The canary `depth` JSON strings deep, as a value and as a key."""

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
    "under a telling key": lambda number: json.dumps(
        {"user": {"e-mail": f"user{number} at {CANARY_HOST}"}}
    ),
    "list under a telling key": lambda number: json.dumps(
        {"email": [f"user{number} at {CANARY_HOST}"]}
    ),
    "secret": lambda number: f"export API_KEY={CANARY_HOST}-{number}-abcdef",
    "url": lambda number: f"postgres://u{number}:{CANARY_HOST}@db/x",
}
