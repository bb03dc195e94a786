"""The fast encoder of events to Avro bytes. It runs in the agent's thread, so its time matters.

fastavro needs a mapping of every value, and finds the branch of each union by validating the value
against it, level by level. Here the schema is compiled once into closures that read the attributes
of the values directly. A nullable field needs no search: its value is None or it is not. This is
four to six times as fast (benchmarks/codec.py). The schema file stays the only contract: nothing of
it is repeated here. A value that the compiled form does not expect (a wrong type, a number that its
type cannot hold) is passed to the plain encoder, which encodes it or names the error. A property
test compares the two encoders.
"""

import operator
import struct
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, TypeAlias, assert_never

from atdp.schemas.contract_tree import (
    TIMESTAMP_MICROS,
    AvroArray,
    AvroEnum,
    AvroField,
    AvroNullable,
    AvroPrimitive,
    AvroRecord,
    AvroType,
)
from atdp.schemas.errors import SchemaError
from atdp.schemas.event import KIND_OF_BODY

Parts: TypeAlias = list[bytes]
Writer: TypeAlias = Callable[[Any, Parts], None]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DOUBLE = struct.Struct("<d")
_FLOAT = struct.Struct("<f")
_TABLE_SIZE = 4096  # numbers below it (lengths, counts, many token ids) come from a table


class _UnexpectedValue(Exception):
    """A value that the compiled form leaves to the plain encoder."""


def compile_event(tree: AvroRecord) -> Writer:
    """Return a writer of events of the schema `tree`.

    The writer appends the Avro body, in pieces, to a list. It raises on whatever it does not
    expect; the caller then throws away what was appended.
    """
    return _Compiler().event(tree)


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


_VARINTS = tuple(_varint(number) for number in range(_TABLE_SIZE))


def _long(number: int) -> bytes:
    if type(number) is not int:
        raise _UnexpectedValue
    return _VARINTS[number] if 0 <= number < _TABLE_SIZE else _varint(number)


def _int(number: int) -> bytes:
    if type(number) is not int:
        raise _UnexpectedValue
    if 0 <= number < _TABLE_SIZE:
        return _VARINTS[number]
    if not -(1 << 31) <= number < 1 << 31:
        raise _UnexpectedValue
    return _varint(number)


def _write_int(value: int, parts: Parts) -> None:
    parts.append(_int(value))


def _write_long(value: int, parts: Parts) -> None:
    parts.append(_long(value))


def _write_string(value: str, parts: Parts) -> None:
    encoded = value.encode()
    parts.append(_long(len(encoded)))
    parts.append(encoded)


def _write_boolean(value: bool, parts: Parts) -> None:
    if value is True:
        parts.append(b"\x01")
    elif value is False:
        parts.append(b"\x00")
    else:
        raise _UnexpectedValue


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


_PRIMITIVES: Mapping[str, Writer] = {
    "string": _write_string,
    "int": _write_int,
    "long": _write_long,
    "boolean": _write_boolean,
    "double": _write_double,
    "float": _write_float,
}


class _Compiler:
    """Turns types into writers; a named type that is used in several places has one writer."""

    def __init__(self) -> None:
        self._named: dict[str, Writer] = {}

    def event(self, tree: AvroRecord) -> Writer:
        """Return the writer of the event record, whose body fields are one attribute of the value.

        Raises:
            SchemaError: the body fields do not stand side by side.
        """
        bodies = set(KIND_OF_BODY.values())
        fields = tree.fields
        first = next(index for index, field in enumerate(fields) if field.name in bodies)
        after = first + len(bodies)
        if {field.name for field in fields[first:after]} != bodies:
            raise SchemaError("the body fields of the event schema must stand side by side")
        kind_of = KIND_OF_BODY
        envelope = [self._step(field) for field in fields[:first]]
        # One of the body fields is set; those before and behind it are nulls.
        body = {
            field.name: (
                b"\x00" * index + b"\x02",
                self.type(field.type.item),
                b"\x00" * (len(bodies) - 1 - index),
            )
            for index, field in enumerate(fields[first:after])
            if isinstance(field.type, AvroNullable)
        }
        rest = [self._step(field) for field in fields[after:]]

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

    def type(self, node: AvroType) -> Writer:
        """Return the writer of any type of the schema.

        Raises:
            SchemaError: the type is a primitive that events do not use.
        """
        match node:
            case AvroPrimitive("long", logical_type) if logical_type == TIMESTAMP_MICROS:
                return _write_micros
            case AvroPrimitive(name):
                writer = _PRIMITIVES.get(name)
                if writer is None:
                    raise SchemaError(f"the compiled encoder has no writer for the type {name}")
                return writer
            case AvroNullable(item):
                return self._nullable(self.type(item))
            case AvroArray(items):
                return self._array(self.type(items))
            case AvroRecord() | AvroEnum():
                return self._named_type(node)
            case never:
                assert_never(never)

    def _step(self, field: AvroField) -> tuple[Callable[[Any], Any], Writer]:
        return operator.attrgetter(field.name), self.type(field.type)

    def _named_type(self, node: AvroRecord | AvroEnum) -> Writer:
        writer = self._named.get(node.name)
        if writer is None:
            writer = self._record(node) if isinstance(node, AvroRecord) else self._enum(node)
            self._named[node.name] = writer
        return writer

    def _nullable(self, inner: Writer) -> Writer:
        def write(value: Any, parts: Parts) -> None:
            if value is None:
                parts.append(b"\x00")
            else:
                parts.append(b"\x02")
                inner(value, parts)

        return write

    def _record(self, record: AvroRecord) -> Writer:
        steps = [self._step(field) for field in record.fields]

        def write(value: Any, parts: Parts) -> None:
            for get, step in steps:
                step(get(value), parts)

        return write

    def _enum(self, enum: AvroEnum) -> Writer:
        numbers = {symbol: _varint(index) for index, symbol in enumerate(enum.symbols)}

        def write(value: str, parts: Parts) -> None:
            parts.append(numbers[value])

        return write

    def _array(self, step: Writer) -> Writer:
        def write(values: Any, parts: Parts) -> None:
            if type(values) is not tuple and type(values) is not list:
                raise _UnexpectedValue
            if values:
                parts.append(_long(len(values)))
                if step is _write_int:
                    parts.extend(map(_int, values))
                elif step is _write_float:
                    parts.append(struct.pack(f"<{len(values)}f", *values))
                else:
                    for value in values:
                        step(value, parts)
            parts.append(b"\x00")

        return write
