"""Checks for numbers that a schema's int (32 bits) or long (64 bits) cannot hold.

The checks run before a record is written and after it is read. Avro writes both types as
variable-length integers, so nothing in the bytes keeps an int within 32 bits. fastavro checks
neither way: it writes an int of 40 bits, reads it back, and lets a long of 70 bits wrap around.
Readers that do check (arrow-rs in the lake) then fail on the whole batch.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, assert_never

from atdp.schemas.contract_tree import (
    TIMESTAMP_MICROS,
    AvroArray,
    AvroEnum,
    AvroNullable,
    AvroPrimitive,
    AvroRecord,
    AvroType,
)
from atdp.schemas.errors import InvalidRecord

Check: TypeAlias = Callable[[Any, str], None]
"""Takes a value and its path; raises InvalidRecord naming the path."""

BITS: Mapping[str, int] = {"int": 32, "long": 64}


def fits(number: int, bits: int) -> bool:
    """Return whether a signed integer of `bits` bits can hold `number`."""
    return -(1 << bits - 1) <= number < 1 << bits - 1


def compile_ranges(tree: AvroRecord) -> Check:
    """Return a check of a mapping's numbers against the schema `tree`.

    Values of other types are left to the encoder, which names the error in them. A schema without
    numbers has nothing to check.
    """
    return _check_of(tree) or _check_nothing


def _check_nothing(value: Any, path: str) -> None:
    """Accept every mapping."""


def _check_of(node: AvroType) -> Check | None:
    match node:
        case AvroPrimitive(name, logical_type):
            bits = BITS.get(name)
            return None if bits is None or logical_type == TIMESTAMP_MICROS else _check_number(bits)
        case AvroNullable(item):
            return _check_of(item)
        case AvroArray(AvroPrimitive("int" | "long" as name)):
            return _check_numbers(BITS[name])
        case AvroArray(items):
            return _check_each(_check_of(items))
        case AvroRecord(_, fields):
            steps = [(field.name, _check_of(field.type)) for field in fields]
            return _check_record([(name, step) for name, step in steps if step is not None])
        case AvroEnum():
            return None
        case never:
            assert_never(never)


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
        except TypeError:  # not all items are numbers; the encoder refuses those
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
        # A Mapping of another type is rare, and asking for one costs more than the whole check.
        if isinstance(value, dict):
            for name, step in steps:
                item = value.get(name)
                if item is not None:
                    step(item, f"{path}.{name}")

    return check
