"""Fields that came to a table after its first release, by path: `order_id`, `governance.engine`.

Field ids are final once a version is released. A field that comes later is therefore the last of
the table, or of its record, and its id comes after all others. Files that were written before lack
it.
"""

import itertools
from collections.abc import Collection, Iterator, Sequence

from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.types import NestedField, StructType


def without_fields(schema: Schema, paths: Collection[str]) -> Schema:
    """Return a schema without some of its fields; the others keep their ids."""
    return Schema(*_kept(schema.fields, paths, ""))


def numbered(schema: Schema, later: Sequence[str]) -> Schema:
    """Return a schema with final ids: those of the fields named `later` come last, in this order.

    A later field is a column, or stands in a column that is a record; its type has no parts.
    """
    first = assign_fresh_schema_ids(without_fields(schema, later))
    fields = {field.name: field for field in first.fields}
    for path, number in zip(later, itertools.count(first.highest_field_id + 1), strict=False):
        added = _changed(schema.find_field(path), field_id=number)
        column, _, name = path.partition(".")
        if not name:
            fields[column] = added
        elif isinstance(record := fields[column].field_type, StructType):
            whole = StructType(*record.fields, added)
            fields[column] = _changed(fields[column], field_type=whole)
    return Schema(*fields.values())


def _kept(
    fields: Sequence[NestedField], paths: Collection[str], prefix: str
) -> Iterator[NestedField]:
    for field in fields:
        path = f"{prefix}{field.name}"
        if path in paths:
            continue
        kind = field.field_type
        if isinstance(kind, StructType):
            inside = StructType(*_kept(kind.fields, paths, f"{path}."))
            field = _changed(field, field_type=inside)
        yield field


def _changed(field: NestedField, **changes: object) -> NestedField:
    return field.model_copy(update=changes)
