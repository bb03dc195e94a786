"""Iceberg types and columns as DuckDB writes them."""

from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, ListType, StructType

_NAMES = {
    "string": "VARCHAR",
    "int": "INTEGER",
    "long": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "boolean": "BOOLEAN",
    "timestamptz": "TIMESTAMP WITH TIME ZONE",
    "binary": "BLOB",
}


def type_name(kind: IcebergType) -> str:
    """The DuckDB name of an Iceberg type of our tables."""
    if isinstance(kind, ListType):
        return f"{type_name(kind.element_type)}[]"
    if isinstance(kind, StructType):
        fields = ", ".join(
            f"{quoted(field.name)} {type_name(field.field_type)}" for field in kind.fields
        )
        return f"STRUCT({fields})"
    return _NAMES[str(kind)]


def field_map(schema: Schema) -> str:
    """The `schema` argument of `read_parquet`: columns by field id.

    Files written before a column was added or renamed then read right; a plain list of files would
    not.
    """
    columns = (
        f"{field.field_id}: {{name: {text(field.name)}, type: {text(type_name(field.field_type))}, default_value: NULL}}"
        for field in schema.fields
    )
    return "MAP {" + ", ".join(columns) + "}"


def empty_relation(schema: Schema) -> str:
    """A SELECT with the table's columns and no rows."""
    columns = ", ".join(
        f"CAST(NULL AS {type_name(field.field_type)}) AS {quoted(field.name)}"
        for field in schema.fields
    )
    return f"SELECT {columns} WHERE false"


def text(value: str) -> str:
    """An SQL string literal."""
    return "'" + value.replace("'", "''") + "'"


def quoted(name: str) -> str:
    """An SQL identifier."""
    return '"' + name.replace('"', '""') + '"'
