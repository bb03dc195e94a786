"""The lake: its catalog, tables, snapshots, and the offsets up to which it holds the log."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from atdp.access import Authorizer, RegisterRules, RulesUnavailable, UseRules, UseRulesSource
from atdp.lakehouse.catalog import ensure_tables, open_catalog
from atdp.lakehouse.errors import LakehouseError, RulesUnreadable
from atdp.lakehouse.held_snapshots import HeldSnapshots
from atdp.lakehouse.positions import positions_of
from atdp.lakehouse.settings import LakeSettings
from atdp.lakehouse.tables import READ_ORDER, TableName, table_definitions
from atdp.runtime import Home, open_register

NO_SNAPSHOT = -1
"""Snapshot id of a table that has no snapshot yet; it reads as empty."""


@dataclass(frozen=True, slots=True)
class Lake:
    """An open lake. It is cheap to keep; each call loads tables from the catalog again."""

    home: Home
    settings: LakeSettings
    catalog: Catalog = field(repr=False)
    rules: UseRulesSource = field(repr=False)
    """Consent, retention and access policies, which every read for a purpose asks."""
    authorizer: Authorizer = field(default_factory=Authorizer, repr=False)
    """Decides about permissions, with the access policies among the rules (see `permitted_use`)."""
    _held: HeldSnapshots = field(default_factory=HeldSnapshots, repr=False, compare=False)

    def use_rules(self) -> UseRules:
        """Return the rules about the use of data as they are now.

        Raises:
            RulesUnreadable: the register cannot be read.
        """
        try:
            return self.rules.rules()
        except RulesUnavailable as error:
            raise RulesUnreadable(str(error)) from error

    def table(self, name: TableName, snapshot_id: int | None = None) -> Table:
        """Return the table in its present state.

        With `snapshot_id` it is a state that has this snapshot, if there is one: the present one,
        or one that this lake has loaded lately (see `HeldSnapshots`).

        Raises:
            LakehouseError: there is no such table.
        """
        definition = table_definitions().get(name)
        if definition is None:
            raise LakehouseError(
                f"no table {name!r}; there are {', '.join(sorted(table_definitions()))}"
            )
        table = self.catalog.load_table(definition.identifier)
        self._held.hold(table)
        if snapshot_id is not None and table.metadata.snapshot_by_id(snapshot_id) is None:
            return self._held.state_of(snapshot_id) or table
        return table

    def snapshots(self) -> dict[TableName, int]:
        """Return the current snapshot id of every table (`NO_SNAPSHOT`: none yet).

        `events` is read first here and committed last by the writer. So the projections have, in
        these snapshots, the rows of all events that `events` has.
        """
        snapshots: dict[TableName, int] = {}
        for name in READ_ORDER:
            snapshot = self.table(name).current_snapshot()
            snapshots[name] = NO_SNAPSHOT if snapshot is None else snapshot.snapshot_id
        return snapshots

    def committed_offsets(
        self, name: TableName, snapshot_id: int | None = None
    ) -> Mapping[int, int]:
        """Return the next offset to read by partition; everything before it is in the table.

        An empty mapping means that nothing has landed yet. `snapshot_id` asks for the positions of
        an older snapshot.
        """
        positions = positions_of(self.table(name, snapshot_id).metadata, snapshot_id)
        return {} if positions is None else positions.next


def open_lake(
    home: Home | Path | str | None = None,
    settings: LakeSettings | None = None,
    rules: UseRulesSource | None = None,
) -> Lake:
    """Open the lake of a home (default: `ATDP_HOME`) and create its tables where they are missing.

    `rules` (default: the register of the home, opened at the first read for a purpose) say what
    consent, retention and access policies permit.

    Raises:
        CatalogError: the catalog cannot be opened.
    """
    if not home:
        home = Home.from_env()
    elif not isinstance(home, Home):
        home = Home(Path(home).resolve())
    chosen = settings or LakeSettings.from_env(home)
    catalog = open_catalog(chosen)
    ensure_tables(catalog)
    if rules is None:
        rules = RegisterRules(lambda: open_register(home))
    return Lake(home, chosen, catalog, rules)
