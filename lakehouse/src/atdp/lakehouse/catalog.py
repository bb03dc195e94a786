"""The Iceberg catalog, and tables in it that match their definitions.

A table that is missing is created. A column or property that the definition has and the table lacks
is added; such columns are optional, so that old files read as null. Nothing is dropped or renamed.
Columns are matched by name, since each table has field ids of its own.
"""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import (
    NamespaceAlreadyExistsError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.table import Table

from atdp.lakehouse.errors import CatalogError
from atdp.lakehouse.settings import LakeSettings
from atdp.lakehouse.tables import NAMESPACE, TableDefinition, table_definitions

_SQL_CATALOG: Final = "atdp.lakehouse.sql_catalog.MemoizedSqlCatalog"


def open_catalog(settings: LakeSettings) -> Catalog:
    """Open the catalog, and create the namespace `atdp` in it where that is missing.

    Raises:
        CatalogError: it cannot be reached or opened.
    """
    properties = {"uri": settings.uri, "warehouse": settings.warehouse, **settings.properties}
    if not {"type", "py-catalog-impl"} & properties.keys():
        is_rest = settings.uri.startswith(("http://", "https://"))
        properties |= {"type": "rest"} if is_rest else {"py-catalog-impl": _SQL_CATALOG}
    try:
        if (file := settings.sqlite_file) is not None:
            _prepare_sqlite(Path(file))
        catalog = load_catalog("atdp", **properties)
        if not catalog.namespace_exists(NAMESPACE):
            _create_namespace(catalog)
    except CatalogError:
        raise
    except Exception as error:  # each catalog's driver raises its own
        raise CatalogError(
            f"cannot open the Iceberg catalog {_without_password(settings.uri)} "
            f"({type(error).__name__}: {error}); "
            "check ATDP_CATALOG_URI, ATDP_WAREHOUSE and ATDP_CATALOG__…"
        ) from error
    return catalog


def ensure_table(catalog: Catalog, definition: TableDefinition) -> Table:
    """Return the table, created or extended to its definition.

    Raises:
        CatalogError: a column of the table has another type than its definition.
    """
    try:
        table = catalog.load_table(definition.identifier)
    except NoSuchTableError:
        table = _create(catalog, definition)
    if set(definition.schema.column_names) - set(table.schema().column_names):
        with table.update_schema() as update:
            update.union_by_name(definition.schema)
    missing = {
        name: value
        for name, value in definition.properties().items()
        if name not in table.properties
        and name != "format-version"  # Iceberg keeps it outside of the properties
    }
    if missing:
        with table.transaction() as change:
            change.set_properties(missing)
    for field in definition.schema.fields:
        present = table.schema().find_field(field.name).field_type
        if str(present.__class__) != str(field.field_type.__class__):
            raise CatalogError(
                f"column {field.name} of table {definition.name} is {present}, "
                f"this version writes {field.field_type}; "
                "the catalog belongs to another version of atdp: "
                "use the version that wrote it, or another catalog"
            )
    return table


def ensure_tables(catalog: Catalog) -> None:
    """Create or extend every table of the lake to its definition."""
    for definition in table_definitions().values():
        ensure_table(catalog, definition)


def _create(catalog: Catalog, definition: TableDefinition) -> Table:
    schema = definition.first_schema
    try:
        return catalog.create_table(
            definition.identifier,
            schema,
            partition_spec=definition.partition_spec(schema),
            sort_order=definition.sort_order(schema),
            properties=definition.properties(),
        )
    except TableAlreadyExistsError:  # another process has created it
        return catalog.load_table(definition.identifier)


def _create_namespace(catalog: Catalog) -> None:
    try:
        catalog.create_namespace(NAMESPACE)
    except NamespaceAlreadyExistsError:
        return


def _prepare_sqlite(file: Path) -> None:
    """Set WAL mode, which stays with the file; readers then never block the writer."""
    file.parent.mkdir(parents=True, exist_ok=True)
    try:
        with closing(sqlite3.connect(file, timeout=30)) as connection:
            connection.execute("PRAGMA journal_mode=WAL")
    except sqlite3.DatabaseError as error:
        raise CatalogError(
            f"{file} is not a usable SQLite catalog ({error}); move it away or restore it"
        ) from error


def _without_password(uri: str) -> str:
    scheme, separator, rest = uri.partition("://")
    return f"{scheme}{separator}{rest.rpartition('@')[2]}"
