"""Event to Avro bytes in the emitting thread, where every microsecond is the agent's.

fastavro finds each union's branch by validating the value against it, record by record, level by
level, and needs a mapping of every value first. Here the schema is compiled once into closures that
read the values' attributes directly, and a nullable field needs no search: its value is None or it
is not. Four to six times as fast (benchmarks/codec.py). The schema file stays the only contract:
nothing of it is repeated here. Whatever the compiled form does not expect, from a wrong type to a
number that its type cannot hold, is handed to the plain encoder, which encodes it or says what is
wrong; a property test holds the two together.
"""

import operator
import struct
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, TypeAlias

from atdp.schemas.values import KIND_OF_BODY

Parts: TypeAlias = list[bytes]
Writer: TypeAlias = Callable[[Any, Parts], None]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DOUBLE = struct.Struct("<d")
_FLOAT = struct.Struct("<f")
_SMALL = 4096  # numbers below it (lengths, counts, many token ids) come from a table


class _UnexpectedValue(Exception):
    """A value that the compiled form leaves to the plain encoder."""


def compile_event(definition: Mapping[str, Any]) -> Writer:
    """A writer of events in the schema `definition`: appends the Avro body, in pieces, to a list.

    The writer raises on whatever it does not expect; what it has appended by then is to be thrown
    away.
    """
    return _Compiler().event(definition)


def _varint(number: int) -> bytes:
    if not -(1 << 63) <= number < 1 << 63:
        raise _UnexpectedValue
    rest = (number << 1) ^ (number >> 63)
    out = bytearray()
    while rest > 0x7F:
        out.append((rest & 0x7F) | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


_VARINTS = tuple(_varint(number) for number in range(_SMALL))


def _number(number: int) -> bytes:
    if type(number) is not int:
        raise _UnexpectedValue
    return _VARINTS[number] if 0 <= number < _SMALL else _varint(number)


def _int(number: int) -> bytes:
    if type(number) is not int:
        raise _UnexpectedValue
    if 0 <= number < _SMALL:
        return _VARINTS[number]
    if not -(1 << 31) <= number < 1 << 31:
        raise _UnexpectedValue
    return _varint(number)


def _write_int(value: int, parts: Parts) -> None:
    parts.append(_int(value))


def _write_long(value: int, parts: Parts) -> None:
    parts.append(_number(value))


def _write_string(value: str, parts: Parts) -> None:
    encoded = value.encode()
    parts.append(_number(len(encoded)))
    parts.append(encoded)


def _write_boolean(value: bool, parts: Parts) -> None:
    parts.append(b"\x01" if value is True else b"\x00" if value is False else _unexpected())


def _write_double(value: float, parts: Parts) -> None:
    if type(value) is not float:
        raise _UnexpectedValue
    parts.append(_DOUBLE.pack(value))


def _write_float(value: float, parts: Parts) -> None:
    if type(value) is not float:
        raise _UnexpectedValue
    parts.append(_FLOAT.pack(value))


def _write_micros(value: datetime, parts: Parts) -> None:
    since = value - _EPOCH  # a time without zone raises here
    parts.append(_varint((since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds))


def _unexpected() -> bytes:
    raise _UnexpectedValue


_SCALARS: Mapping[str, Writer] = {
    "string": _write_string,
    "int": _write_int,
    "long": _write_long,
    "boolean": _write_boolean,
    "double": _write_double,
    "float": _write_float,
}


class _Compiler:
    """Turns a schema into writers; remembers named types, which later fields refer to by name."""

    def __init__(self) -> None:
        self._named: dict[str, Writer] = {}

    def event(self, definition: Mapping[str, Any]) -> Writer:
        """The writer of the event record, whose body fields are one attribute of the value."""
        bodies = set(KIND_OF_BODY.values())
        fields = definition["fields"]
        first = next(index for index, field in enumerate(fields) if field["name"] in bodies)
        after = first + len(bodies)
        if {field["name"] for field in fields[first:after]} != bodies:
            raise ValueError("the event's body fields are expected side by side")
        kind_of = KIND_OF_BODY
        envelope = [
            (operator.attrgetter(field["name"]), self.type(field["type"]))
            for field in fields[:first]
        ]
        # Of the body fields, one is set; those before and behind it are nulls.
        body = {
            field["name"]: (
                b"\x00" * index + b"\x02",
                self.type(field["type"][1]),
                b"\x00" * (len(bodies) - 1 - index),
            )
            for index, field in enumerate(fields[first:after])
        }
        rest = [
            (operator.attrgetter(field["name"]), self.type(field["type"]))
            for field in fields[after:]
        ]

        def write(event: Any, parts: Parts) -> None:
            for get, step in envelope:
                step(get(event), parts)
            before, step, behind = body[kind_of[type(event.body)]]
            parts.append(before)
            step(event.body, parts)
            parts.append(behind)
            for get, step in rest:
                step(get(event), parts)

        return write

    def type(self, node: Any) -> Writer:
        """The writer of any type of the schema."""
        match node:
            case str():
                return _SCALARS.get(node) or self._named[node.rpartition(".")[2]]
            case ["null", other]:
                return self._nullable(self.type(other))
            case {"logicalType": "timestamp-micros"}:
                return _write_micros
            case {"type": "record", "name": name, "fields": fields}:
                return self._record(name, fields)
            case {"type": "enum", "name": name, "symbols": symbols}:
                return self._enum(name, symbols)
            case {"type": "array", "items": items}:
                return self._array(items)
            case _:
                raise ValueError(f"the compiled encoder does not know {node!r}")

    def _nullable(self, inner: Writer) -> Writer:
        def write(value: Any, parts: Parts) -> None:
            if value is None:
                parts.append(b"\x00")
            else:
                parts.append(b"\x02")
                inner(value, parts)

        return write

    def _record(self, name: str, fields: list[Mapping[str, Any]]) -> Writer:
        steps = [(operator.attrgetter(field["name"]), self.type(field["type"])) for field in fields]

        def write(value: Any, parts: Parts) -> None:
            for get, step in steps:
                step(get(value), parts)

        self._named[name] = write
        return write

    def _enum(self, name: str, symbols: list[str]) -> Writer:
        numbers = {symbol: _varint(index) for index, symbol in enumerate(symbols)}

        def write(value: str, parts: Parts) -> None:
            parts.append(numbers[value])

        self._named[name] = write
        return write

    def _array(self, items: Any) -> Writer:
        step = self.type(items)

        def write(values: Any, parts: Parts) -> None:
            if type(values) is not tuple and type(values) is not list:
                raise _UnexpectedValue
            if values:
                parts.append(_number(len(values)))
                if step is _write_int:
                    parts.extend(map(_int, values))
                elif step is _write_float:
                    parts.append(struct.pack(f"<{len(values)}f", *values))
                else:
                    for value in values:
                        step(value, parts)
            parts.append(b"\x00")

        return write
