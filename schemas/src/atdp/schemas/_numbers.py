"""Numbers that a schema's int (32 bits) or long (64 bits) cannot hold: found before they are written, and after they are read.

Avro writes both as variable-length integers, so nothing in the bytes keeps an int within 32 bits.
fastavro checks neither way: it writes an int of 40 bits, reads it back, and lets a long of 70 bits
wrap around. Readers that do check (arrow-rs in the lake) then fail on the whole batch.
"""

import re
import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from atdp.schemas.errors import InvalidRecord

Check: TypeAlias = Callable[[Any, str], None]

BITS: Mapping[str, int] = {"int": 32, "long": 64}


def fits(number: int, bits: int) -> bool:
    """Whether a signed integer of `bits` bits can be `number`."""
    return -(1 << bits - 1) <= number < 1 << bits - 1


def named_types(definition: Mapping[str, Any]) -> Mapping[str, Any]:
    """Records and enums of a schema by name, at whatever depth they are defined."""
    found: dict[str, Any] = {}

    def learn(node: Any) -> None:
        match node:
            case list():
                for branch in node:
                    learn(branch)
            case {"type": "record", "name": name, "fields": fields}:
                found[name] = node
                for field in fields:
                    learn(field["type"])
            case {"type": "enum", "name": name}:
                found[name] = node
            case {"type": "array", "items": items}:
                learn(items)

    learn(definition)
    return found


def compile_ranges(definition: Mapping[str, Any]) -> Check:
    """A check of a mapping's numbers against the schema `definition`: raises InvalidRecord naming the path.

    Values of other types are left to the encoder, which says what is wrong with them.
    """
    named: dict[str, Check | None] = {}

    def check_of(node: Any) -> Check | None:
        match node:
            case "int" | "long":
                return _check_number(BITS[node])
            case str():
                return named.get(node.rpartition(".")[2])
            case list():
                return check_of(next(branch for branch in node if branch != "null"))
            case {"type": "array", "items": "int" | "long" as items}:
                return _check_numbers(BITS[items])
            case {"type": "array", "items": items}:
                return _check_each(check_of(items))
            case {"type": "record", "name": name, "fields": fields}:
                steps = [(field["name"], check_of(field["type"])) for field in fields]
                named[name] = _check_record(
                    [(name, step) for name, step in steps if step is not None]
                )
                return named[name]
            case _:
                return None

    found = check_of(definition)
    if found is None:
        raise ValueError("the schema holds no number: nothing to check")
    return found


def _check_number(bits: int) -> Check:
    low, high = -(1 << bits - 1), 1 << bits - 1

    def check(value: Any, path: str) -> None:
        if type(value) is int and not low <= value < high:
            raise InvalidRecord(f"{path}: expected an integer of {bits} bits, got a larger one")

    return check


def _check_numbers(bits: int) -> Check:
    low, high = -(1 << bits - 1), 1 << bits - 1
    one = _check_number(bits)

    def check(values: Any, path: str) -> None:
        try:
            if not values or (low <= min(values) and max(values) < high):
                return
        except TypeError:  # not all of them are numbers: the encoder's business
            return
        for index, value in enumerate(values):
            one(value, f"{path}[{index}]")

    return check


def _check_each(step: Check | None) -> Check | None:
    if step is None:
        return None

    def check(values: Any, path: str) -> None:
        if isinstance(values, list | tuple):
            for index, value in enumerate(values):
                step(value, f"{path}[{index}]")

    return check


def _check_record(steps: list[tuple[str, Check]]) -> Check | None:
    if not steps:
        return None

    def check(value: Any, path: str) -> None:
        if isinstance(
            value, dict
        ):  # a Mapping of another kind is rare, and asking for one costs more than the rest of this
            for name, step in steps:
                item = value.get(name)
                if item is not None:
                    step(item, f"{path}.{name}")

    return check


# 64 bits are 9 bytes of 7 bits and one bit more. Text beyond ASCII and lists of floats hold such
# bytes, too.
_MAY_BE_OVERLONG = re.compile(rb"[\x80-\xff]{9}[\x02-\xff]")
# The pattern takes 5 ns per byte, so it begins where nine high bytes stand; those are found in a
# tenth of that.
_HIGH = bytes(byte >> 7 for byte in range(256))
_NINE_HIGH = b"\1" * 9


def refuse_overlong(
    data: bytes, start: int, definition: Mapping[str, Any], record: Mapping[str, Any]
) -> None:
    """Raise InvalidRecord when an integer in the Avro body `data[start:]` has more than 64 bits.

    `record` is what fastavro made of the body. Its lists of floats are cut out of the bytes before
    these are walked through one by one, which takes longer than all of fastavro's work: nearly
    every generation with log-probabilities would need it.
    """
    if not _may_be_overlong(data, start):
        return
    rest = data[start:]
    for floats in _float_lists(record):
        rest = rest.replace(struct.pack(f"<{len(floats)}f", *floats), b"", 1)
    if _may_be_overlong(rest, 0):
        _Skim(data, start).body(definition)


def _may_be_overlong(data: bytes, start: int) -> bool:
    at = data.translate(_HIGH).find(_NINE_HIGH, start)
    return at >= 0 and _MAY_BE_OVERLONG.search(data, at) is not None


def _float_lists(value: Any) -> Iterator[list[float]]:
    for item in value.values():
        if type(item) is dict:
            yield from _float_lists(item)
        elif type(item) is list and item and type(item[0]) is float:
            yield item


class _Skim:
    """Walks Avro bytes without building values."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data = data
        self._at = at
        self._named: Mapping[str, Any] = {}

    def body(self, definition: Mapping[str, Any]) -> None:
        """Go past a value of the whole schema."""
        self._named = named_types(definition)
        self.type(definition)

    def type(self, node: Any) -> None:
        """Go past one value of the type `node`."""
        match node:
            case "null":
                pass
            case "boolean":
                self._at += 1
            case "float":
                self._at += 4
            case "double":
                self._at += 8
            case "int" | "long":
                self._number()
            case "string" | "bytes":
                length = self._number()
                self._at += length
            case str():
                self.type(self._named[node.rpartition(".")[2]])
            case list():
                self.type(node[self._number()])
            case {"type": "record", "fields": fields}:
                for field in fields:
                    self.type(field["type"])
            case {"type": "enum"}:
                self._number()
            case {"type": "array", "items": items}:
                while count := self._number():
                    if count < 0:
                        self._number()
                    if items == "float":
                        self._at += 4 * abs(count)
                        continue
                    for _ in range(abs(count)):
                        self.type(items)
            case {"type": str() as inner}:
                self.type(inner)
            case _:
                raise ValueError(f"the walk over Avro bytes does not know {node!r}")

    def _number(self) -> int:
        number, shift = 0, 0
        while True:
            byte = self._data[self._at]
            self._at += 1
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        if number >= 1 << 64:
            raise InvalidRecord("an integer in the record has more than 64 bits")
        return (number >> 1) ^ -(number & 1)
