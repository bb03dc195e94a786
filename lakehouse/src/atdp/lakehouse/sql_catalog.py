"""The SQL catalog of Iceberg, which parses each metadata file once.

A metadata file never changes: a commit writes another one and puts its name into the catalog. To
parse one takes longer than to ask the catalog for its name, and every connection and every look for
new snapshots loads all tables.
"""

import threading
from typing import Final

from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
from pyiceberg.table import Table

_TABLES: Final = 64
"""Parsed metadata files that are kept, for about ten states of each table."""


class MemoizedSqlCatalog(SqlCatalog):
    """A SQL catalog that keeps the newest metadata files in their parsed form."""

    def __init__(self, name: str, **properties: str) -> None:
        """Open the catalog; see `SqlCatalog`."""
        self._tables: dict[str, Table] = {}
        self._lock = threading.Lock()
        super().__init__(name, **properties)

    def _convert_orm_to_iceberg(self, orm_table: IcebergTables) -> Table:
        """Return a table of its own for each call, since a `Table` changes when it is refreshed."""
        location = orm_table.metadata_location or ""  # the base class refuses a table without one
        with self._lock:
            known = self._tables.get(location)
        if known is None:
            known = super()._convert_orm_to_iceberg(orm_table)
            with self._lock:
                self._tables[location] = known
                for oldest in list(self._tables)[:-_TABLES]:
                    del self._tables[oldest]
        return Table(known.name(), known.metadata, location, known.io, self)
