"""Why a mapping does not fit a schema: where, what was expected, which type was found.

Never a value.

fastavro's own messages quote the whole record; those must reach neither a log nor an answer.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from atdp.schemas._numbers import BITS, fits, named_types

_TYPES: Mapping[str, tuple[type, ...]] = {
    "int": (int,),
    "long": (int,),
    "float": (int, float),
    "double": (int, float),
    "boolean": (bool,),
    "bytes": (bytes, bytearray),
}


def misfit(definition: Mapping[str, Any], value: Any) -> str | None:
    """The first place where `value` does not fit, as a sentence; `None` when none is seen."""
    return _Search(named_types(definition)).type(definition, value, "$")


class _Search:
    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named = named

    def type(self, node: Any, value: Any, path: str) -> str | None:
        """What is wrong with `value` as one of the type `node`."""
        match node:
            case "string":
                return _string(value, path)
            case str() if node in _TYPES:
                return _scalar(node, value, path)
            case str():
                return self.type(self._named[node.rpartition(".")[2]], value, path)
            case list():
                inner = next(branch for branch in node if branch != "null")
                return None if value is None else self.type(inner, value, path)
            case {"type": "record", "name": name, "fields": fields}:
                if not isinstance(value, Mapping):
                    return _expected(path, f"an object for {name}", value)
                return _first(self._field(field, value, path) for field in fields)
            case {"type": "array", "items": items}:
                if not isinstance(value, list | tuple):
                    return _expected(path, "a list", value)
                return _first(
                    self.type(items, item, f"{path}[{index}]") for index, item in enumerate(value)
                )
            case {"type": "enum", "symbols": symbols}:
                known = isinstance(value, str) and value in symbols
                return None if known else _expected(path, f"one of {', '.join(symbols)}", value)
            case _:
                return None

    def _field(self, field: Mapping[str, Any], value: Mapping[str, Any], path: str) -> str | None:
        name = field["name"]
        if name not in value and "default" in field:
            return None
        return self.type(field["type"], value.get(name), f"{path}.{name}")


def _first(found: Iterator[str | None]) -> str | None:
    return next((one for one in found if one is not None), None)


def _string(value: Any, path: str) -> str | None:
    if not isinstance(value, str | bytes):
        return _expected(path, "text", value)
    try:
        value.encode() if isinstance(value, str) else None
    except UnicodeEncodeError:
        return f"{path}: expected valid Unicode text, got text with half of a surrogate pair"
    return None


def _scalar(node: str, value: Any, path: str) -> str | None:
    number: Any = value
    if not isinstance(value, _TYPES[node]) or (isinstance(value, bool) and node != "boolean"):
        return _expected(path, f"a value of type {node}", value)
    if node in BITS and not fits(number, BITS[node]):
        return f"{path}: expected an integer of {BITS[node]} bits, got a larger one"
    return None


def _expected(path: str, what: str, value: Any) -> str:
    return f"{path}: expected {what}, got {type(value).__name__}"
