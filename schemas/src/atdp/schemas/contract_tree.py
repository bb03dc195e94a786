"""The typed tree of an Avro schema.

Everything that walks a contract (encoders, checks, governance, table definitions, the reference
pages) walks this tree instead of the raw JSON of the schema file. The tree is built once per
schema. A type that is referred to by name is the same object as the one at its definition, so a
walk needs no table of names.

The tree covers the part of Avro that the contracts use: records, enums, arrays, primitive types,
and unions of null and one other type, in this order. Anything else is refused while the tree is
built. Recursive types are refused too, since a recursive record has no column form.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, assert_never, cast, get_args

from atdp.schemas.errors import SchemaError

PrimitiveName: TypeAlias = Literal["string", "bytes", "boolean", "int", "long", "float", "double"]
AvroType: TypeAlias = "AvroRecord | AvroEnum | AvroArray | AvroNullable | AvroPrimitive"

TIMESTAMP_MICROS: Final = "timestamp-micros"
"""The logical type of times: microseconds since 1970, UTC, in a long."""


@dataclass(frozen=True, slots=True)
class AvroPrimitive:
    """A type without parts. `logical_type` is Avro's `logicalType`, or None."""

    name: PrimitiveName
    logical_type: str | None = None


@dataclass(frozen=True, slots=True)
class AvroEnum:
    """One of a few words. `default` is the symbol that replaces an unknown one while reading."""

    name: str
    symbols: tuple[str, ...]
    doc: str = ""
    default: str | None = None


@dataclass(frozen=True, slots=True)
class AvroArray:
    """A list of values of one type."""

    items: AvroType


@dataclass(frozen=True, slots=True)
class AvroNullable:
    """A union of null and `item`; on the wire, branch 0 is null and branch 1 is `item`."""

    item: AvroType


@dataclass(frozen=True, slots=True)
class AvroField:
    """One field of a record. `default` has a meaning only where `has_default` is true."""

    name: str
    type: AvroType
    doc: str = ""
    has_default: bool = False
    default: object = None


@dataclass(frozen=True, slots=True)
class AvroRecord:
    """A record with its fields in the order of the wire."""

    name: str
    fields: tuple[AvroField, ...]
    doc: str = ""


def contract_tree(definition: Mapping[str, Any]) -> AvroRecord:
    """Return the tree of the schema `definition`, which is the parsed JSON of an `.avsc` file.

    Raises:
        SchemaError: the definition is not a record, or holds a type that the contracts do not use.
    """
    tree = _Builder().build(definition)
    if not isinstance(tree, AvroRecord):
        raise SchemaError("a contract must be a record")
    return tree


def records_of(tree: AvroType) -> Iterator[AvroRecord]:
    """Yield every record of the tree once, each before the records inside it."""
    seen: set[str] = set()
    pending: list[AvroType] = [tree]
    while pending:
        match pending.pop():
            case AvroRecord() as record:
                if record.name not in seen:
                    seen.add(record.name)
                    yield record
                    pending.extend(field.type for field in reversed(record.fields))
            case AvroArray(inner) | AvroNullable(inner):
                pending.append(inner)
            case AvroEnum() | AvroPrimitive():
                pass
            case never:
                assert_never(never)


class _Builder:
    """Builds a tree in the order of the document; Avro defines a name before its next use."""

    def __init__(self) -> None:
        self._named: dict[str, AvroRecord | AvroEnum] = {}

    def build(self, node: Any) -> AvroType:
        match node:
            case str():
                return self._referred(node)
            case ["null", other]:
                return AvroNullable(self.build(other))
            case {"type": "record", "name": name, "fields": fields}:
                record = AvroRecord(
                    name=name,
                    fields=tuple(self._field(field) for field in fields),
                    doc=node.get("doc", ""),
                )
                self._named[name] = record
                return record
            case {"type": "enum", "name": name, "symbols": symbols}:
                enum = AvroEnum(
                    name=name,
                    symbols=tuple(symbols),
                    doc=node.get("doc", ""),
                    default=node.get("default"),
                )
                self._named[name] = enum
                return enum
            case {"type": "array", "items": items}:
                return AvroArray(self.build(items))
            case {"type": str() as name} if name in get_args(PrimitiveName):
                return AvroPrimitive(cast("PrimitiveName", name), node.get("logicalType"))
            case _:
                raise SchemaError(f"the contracts use no type such as {node!r}")

    def _field(self, field: Mapping[str, Any]) -> AvroField:
        return AvroField(
            name=field["name"],
            type=self.build(field["type"]),
            doc=field.get("doc", ""),
            has_default="default" in field,
            default=field.get("default"),
        )

    def _referred(self, name: str) -> AvroType:
        if name in get_args(PrimitiveName):
            return AvroPrimitive(cast("PrimitiveName", name))
        named = self._named.get(name.rpartition(".")[2])
        if named is None:
            raise SchemaError(f"the type {name!r} is used before its definition ends")
        return named
