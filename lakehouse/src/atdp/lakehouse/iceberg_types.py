"""Iceberg types and columns that follow from the Avro contracts.

Nested fields are all optional: when an optional record is absent, its required fields are absent
too. At the top level, a field that Avro requires is a required column.

The field ids that are made here are placeholders; `derivation` replaces them by the final ones.
"""

import itertools
from collections.abc import Collection, Mapping
from typing import assert_never

from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
)

from atdp.schemas import (
    AvroArray,
    AvroEnum,
    AvroNullable,
    AvroPrimitive,
    AvroRecord,
    AvroType,
    SchemaName,
    newest,
)

PRIMITIVES: Mapping[str, IcebergType] = {
    "string": StringType(),
    "int": IntegerType(),
    "long": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "boolean": BooleanType(),
    "bytes": BinaryType(),
    "timestamp": TimestamptzType(),
}

_placeholder_ids = itertools.count(1)


def iceberg_type(avro: AvroType) -> IcebergType:
    """Return the Iceberg type of an Avro type."""
    match avro:
        case AvroNullable(item):
            return iceberg_type(item)
        case AvroRecord():
            return StructType(
                *(column(field.name, iceberg_type(field.type)) for field in avro.fields)
            )
        case AvroArray(items):
            return list_of(iceberg_type(items))
        case AvroEnum():
            return StringType()
        case AvroPrimitive(name, logical_type):
            is_time = logical_type == "timestamp-micros"
            return PRIMITIVES["timestamp" if is_time else name]
        case _:
            assert_never(avro)


def contract_columns(schema: SchemaName, *, without: Collection[str] = ()) -> list[NestedField]:
    """Return the columns of a contract's newest version, in its order."""
    return [
        column(
            field.name,
            iceberg_type(field.type),
            required=not isinstance(field.type, AvroNullable),
            doc=field.doc or None,
        )
        for field in newest(schema).tree.fields
        if field.name not in without
    ]


def column(
    name: str, kind: IcebergType, *, required: bool = False, doc: str | None = None
) -> NestedField:
    """Return a column with a placeholder id."""
    return NestedField(next(_placeholder_ids), name, kind, required=required, doc=doc)


def list_of(element: IcebergType) -> ListType:
    """Return the type of lists of an element that may be null."""
    return ListType(next(_placeholder_ids), element, element_required=False)
