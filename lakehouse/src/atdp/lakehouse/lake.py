"""The lake: catalog and tables, what snapshots they are at, and up to which offsets they hold the log."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from atdp.lakehouse.catalog import ensure_tables, open_catalog
from atdp.lakehouse.errors import LakehouseError
from atdp.lakehouse.positions import positions_of
from atdp.lakehouse.settings import LakeSettings
from atdp.lakehouse.tables import READ_ORDER, TableName, table_definitions
from atdp.runtime import Home

NO_SNAPSHOT = -1
"""Stands for a table that has no snapshot yet: it reads as empty."""


@dataclass(frozen=True)
class Lake:
    """An open lake. Cheap to keep; tables are loaded anew from the catalog at each call."""

    home: Home
    settings: LakeSettings
    catalog: Catalog = field(repr=False)

    def table(self, name: TableName) -> Table:
        """The table as of now.

        Raises:
            LakehouseError: there is no such table.
        """
        definition = table_definitions().get(name)
        if definition is None:
            raise LakehouseError(
                f"no table {name!r}; there are {', '.join(sorted(table_definitions()))}"
            )
        return self.catalog.load_table(definition.identifier)

    def snapshots(self) -> dict[TableName, int]:
        """Current snapshot id of every table (`NO_SNAPSHOT`: none yet).

        `events` is looked at first and committed last: whatever these ids show of `events` they
        show of its projections.
        """
        found: dict[TableName, int] = {}
        for name in READ_ORDER:
            snapshot = self.table(name).current_snapshot()
            found[name] = NO_SNAPSHOT if snapshot is None else snapshot.snapshot_id
        return found

    def committed_offsets(
        self, name: TableName, snapshot_id: int | None = None
    ) -> Mapping[int, int]:
        """Partition → next offset to read: everything before it is in the table.

        Empty: nothing yet.

        `snapshot_id` asks for the positions of an older snapshot.
        """
        positions = positions_of(self.table(name).metadata, snapshot_id)
        return {} if positions is None else positions.next


def open_lake(home: Home | Path | str | None = None, settings: LakeSettings | None = None) -> Lake:
    """The lake of a home (default: `ATDP_HOME`), with its tables created where they were missing.

    Raises:
        CatalogError: the catalog cannot be opened.
    """
    place = (
        home if isinstance(home, Home) else Home(Path(home).resolve()) if home else Home.from_env()
    )
    chosen = settings or LakeSettings.from_env(place)
    catalog = open_catalog(chosen)
    ensure_tables(catalog)
    return Lake(place, chosen, catalog)
