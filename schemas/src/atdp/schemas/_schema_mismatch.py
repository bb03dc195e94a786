"""The reason why a mapping does not fit a schema: the place, the expected type, the type found.

The reason never quotes a value. fastavro's own messages quote the whole record, which must reach
neither a log nor an answer.
"""

from collections.abc import Iterator, Mapping
from typing import Any, assert_never

from atdp.schemas._number_ranges import BITS, fits
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

_PYTHON_TYPES: Mapping[str, tuple[type, ...]] = {
    "int": (int,),
    "long": (int,),
    "float": (int, float),
    "double": (int, float),
    "boolean": (bool,),
    "bytes": (bytes, bytearray),
}


def first_mismatch(node: AvroType, value: Any, path: str = "$") -> str | None:
    """Return the first place where `value` does not fit the type `node`, as a sentence.

    None means that no mismatch was seen.
    """
    match node:
        case AvroPrimitive():
            return _primitive(node, value, path)
        case AvroNullable(item):
            return None if value is None else first_mismatch(item, value, path)
        case AvroEnum():
            return _enum(node, value, path)
        case AvroArray(items):
            return _array(items, value, path)
        case AvroRecord():
            return _record(node, value, path)
        case never:
            assert_never(never)


def _enum(node: AvroEnum, value: Any, path: str) -> str | None:
    if isinstance(value, str) and value in node.symbols:
        return None
    return _expected(path, f"one of {', '.join(node.symbols)}", value)


def _array(items: AvroType, value: Any, path: str) -> str | None:
    if not isinstance(value, list | tuple):
        return _expected(path, "a list", value)
    return _first(
        first_mismatch(items, item, f"{path}[{index}]") for index, item in enumerate(value)
    )


def _record(node: AvroRecord, value: Any, path: str) -> str | None:
    if not isinstance(value, Mapping):
        return _expected(path, f"an object for {node.name}", value)
    return _first(_field(field, value, path) for field in node.fields)


def _field(field: AvroField, value: Mapping[str, Any], path: str) -> str | None:
    if field.name not in value and field.has_default:
        return None
    return first_mismatch(field.type, value.get(field.name), f"{path}.{field.name}")


def _first(mismatches: Iterator[str | None]) -> str | None:
    return next((mismatch for mismatch in mismatches if mismatch is not None), None)


def _primitive(node: AvroPrimitive, value: Any, path: str) -> str | None:
    if node.name == "string":
        return _string(value, path)
    if node.logical_type == TIMESTAMP_MICROS:
        return None  # fastavro takes several forms of a time
    return _scalar(node.name, value, path)


def _string(value: Any, path: str) -> str | None:
    if not isinstance(value, str | bytes):
        return _expected(path, "text", value)
    try:
        value.encode() if isinstance(value, str) else None
    except UnicodeEncodeError:
        return f"{path}: expected valid Unicode text, got text with half of a surrogate pair"
    return None


def _scalar(name: str, value: Any, path: str) -> str | None:
    number: Any = value
    if not isinstance(value, _PYTHON_TYPES[name]) or (
        isinstance(value, bool) and name != "boolean"
    ):
        return _expected(path, f"a value of type {name}", value)
    if name in BITS and not fits(number, BITS[name]):
        return f"{path}: expected an integer of {BITS[name]} bits, got a larger one"
    return None


def _expected(path: str, what: str, value: Any) -> str:
    return f"{path}: expected {what}, got {type(value).__name__}"
