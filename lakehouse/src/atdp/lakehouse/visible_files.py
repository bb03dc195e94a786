"""The boundary of a connection: the files of the lake that a caller may read.

The boundary is *which files are listed*. Tenant and allowed purposes are identity partitions, so
the files of one tenant that allow one purpose hold no other rows. The DuckDB instance of a
connection may open these files and no other path of the machine: `allowed_paths` names them, then
`enable_external_access=false` and `lock_configuration=true` make that final. A view is no such
boundary, since whoever can read the file of a view can read the whole file.

Trajectories that consent or retention withhold now (see `withheld`) stand in files together with
others. The governed files of a tenant that has such trajectories are therefore not listed: they are
scanned outside DuckDB, without these trajectories, and no statement can open them.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING

import duckdb
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.table import Table

from atdp.lakehouse.duckdb_sql import (
    empty_relation,
    parquet_schema,
    select_all,
    sql_identifier,
    sql_literal,
)
from atdp.lakehouse.errors import LakehouseError, SnapshotGone
from atdp.lakehouse.lake import NO_SNAPSHOT, Lake
from atdp.lakehouse.manifests import ListedFile, files_of
from atdp.lakehouse.storage import filesystem_of, is_local, path_in_filesystem
from atdp.lakehouse.tables import (
    LATER_TABLES,
    PURPOSE_SEPARATOR,
    READ_ORDER,
    TableDefinition,
    TableName,
    table_definitions,
)
from atdp.lakehouse.withheld import Withheld

if TYPE_CHECKING:
    import pyarrow.dataset as ds

VIEWS: Sequence[str] = ("latest_rewards", "rewards_effective", "steps", "trajectories")
MACROS: Sequence[str] = ("held_out", "whole_prompts")

ANALYTICS = "analytics"

ANY_PURPOSE = "*"
"""The scope of every row, whatever it may be used for. It is for decisions about rows by their
stamps. No purpose can have this name."""

AUDIT = "*audit"
"""The scope of an auditor: the tables of decisions alone (of governance, of evaluations and of
releases), and no governed table or view. No purpose can have this name."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Scope:
    """The rows that a caller may see."""

    tenant: str | None
    """None: all tenants."""
    purpose: str
    """Only rows that allow it; `ANY_PURPOSE`: every row."""

    def contains(self, definition: TableDefinition, file: ListedFile) -> bool:
        """Return whether a file of a table holds only rows of this scope."""
        if self.tenant is not None and file.partition[0] != self.tenant:
            return False
        if self.purpose == ANY_PURPOSE:
            return True
        if self.purpose == AUDIT:
            return not definition.governed
        if not definition.governed:  # decisions are for analysis only
            return self.purpose == ANALYTICS
        return self.purpose in str(file.partition[1]).split(PURPOSE_SEPARATOR)


def attach_tables(
    duck: duckdb.DuckDBPyConnection,
    lake: Lake,
    scope: Scope,
    wanted: Mapping[TableName, int] | None,
    withheld: Withheld,
    only: Collection[TableName] | None = None,
) -> dict[TableName, int]:
    """Create the views and macros of the lake in a DuckDB instance, over the files of a scope.

    Trajectories that are `withheld` are in none of the governed tables. With `only`, these tables
    alone can be read, without the views and macros, whose creation takes most of the time.

    Returns:
        The snapshot of each table that the views show: the `wanted` ones, or else the newest.

    Raises:
        SnapshotGone: a wanted snapshot has been expired.
        LakehouseError: `wanted` lacks a table.
    """
    local_paths: list[str] = []
    chosen: dict[TableName, int] = {}
    for name in READ_ORDER:  # events first, see tables.READ_ORDER
        table = lake.table(name, None if wanted is None else wanted.get(name))
        chosen[name] = _snapshot(table, name, wanted)
        if only is not None and name not in only:
            continue
        files = [
            file
            for file in files_of(table, chosen[name])
            if scope.contains(table_definitions()[name], file)
        ]
        governed = table_definitions()[name].governed
        if governed and scope.purpose == AUDIT:
            continue
        local_paths += _create_view(duck, name, table, files, withheld if governed else Withheld())
    duck.execute("SET TimeZone = 'UTC'")
    duck.execute(f"SET allowed_paths = [{', '.join(map(sql_literal, local_paths))}]")
    if only is None and scope.purpose != AUDIT:
        create_views(duck)
    return chosen


def create_views(duck: duckdb.DuckDBPyConnection) -> None:
    """Create the macros and views in a DuckDB instance that has the tables."""
    for folder, names in (("macros", MACROS), ("views", VIEWS)):
        for each in names:
            file = resources.files(f"atdp.lakehouse.{folder}").joinpath(f"{each}.sql")
            duck.execute(file.read_text("utf-8"))


def lock_down(duck: duckdb.DuckDBPyConnection, *, memory: str) -> None:
    """Close a DuckDB instance to everything but its allowed paths, for good.

    Raises:
        LakehouseError: this version of DuckDB allows further directories.
    """
    for setting in (
        f"memory_limit = {sql_literal(memory)}",
        "parquet_metadata_cache = true",
        "python_enable_replacements = false",
        "autoload_known_extensions = false",
        "autoinstall_known_extensions = false",
        "allow_community_extensions = false",
        "max_temp_directory_size = '0B'",
        # The default, `.tmp` where the process runs, could be read and written by statements.
        "temp_directory = ''",
        "enable_external_access = false",
        "lock_configuration = true",
    ):
        duck.execute(f"SET {setting}")
    folders = duck.sql("SELECT current_setting('allowed_directories')").fetchall()
    if folders != [([],)]:
        raise LakehouseError(
            f"DuckDB would let statements read the directories {folders}, so this version "
            "of DuckDB is not safe to use; install the version that atdp-lakehouse asks for"
        )


def _snapshot(table: Table, name: TableName, wanted: Mapping[TableName, int] | None) -> int:
    if wanted is None:
        current = table.current_snapshot()
        return NO_SNAPSHOT if current is None else current.snapshot_id
    if name not in wanted:
        if name in LATER_TABLES:
            return NO_SNAPSHOT
        raise LakehouseError(
            f"the given snapshots name no {name}; give all of {', '.join(READ_ORDER)}"
        )
    snapshot_id = wanted[name]
    if snapshot_id != NO_SNAPSHOT and table.metadata.snapshot_by_id(snapshot_id) is None:
        raise SnapshotGone(
            f"snapshot {snapshot_id} of {name} has been expired: "
            "only tagged snapshots are kept for long. "
            "Create a dataset before reading (`atdp dataset create`), and read that"
        )
    return snapshot_id


def _create_view(
    duck: duckdb.DuckDBPyConnection,
    name: TableName,
    table: Table,
    files: Sequence[ListedFile],
    withheld: Withheld,
) -> list[str]:
    """Create the view of a table over some of its files; returns the local paths that it opens."""
    schema = table.schema()
    by_tenant: dict[str, list[str]] = {}
    for file in files:
        tenant = str(file.partition[0])
        if tenant not in withheld.tenants:
            by_tenant.setdefault(tenant, []).append(path_in_filesystem(file.path))
    remote = not is_local(table.location())
    # DuckDB's wheel has no httpfs, so pyarrow reads remote files; DuckDB pushes columns down.
    scanned = {tenant for tenant in by_tenant if remote or withheld.of(tenant)}
    listed = [path for tenant in by_tenant if tenant not in scanned for path in by_tenant[tenant]]
    parts = []
    if listed:
        paths = ", ".join(map(sql_literal, listed))
        columns = select_all(table_definitions()[name].grown_records)
        parts.append(f"{columns} FROM read_parquet([{paths}], schema = {parquet_schema(schema)})")
    if scanned:
        rows = {tenant: by_tenant[tenant] for tenant in sorted(scanned)}
        duck.register(f"{name}_scanned", _rows_outside(table, rows, withheld))
        parts.append(f"FROM {sql_identifier(f'{name}_scanned')}")
    text = " UNION ALL BY NAME ".join(parts) or empty_relation(schema)
    duck.execute(f"CREATE VIEW {sql_identifier(name)} AS {text}")
    return listed


def _rows_outside(
    table: Table, paths: Mapping[str, Sequence[str]], withheld: Withheld
) -> "ds.Dataset":
    """Return the rows of files, by tenant, without the withheld trajectories."""
    import pyarrow.compute as pc  # both take longer to import than a query to run
    import pyarrow.dataset as ds

    datasets = []
    for tenant, files in paths.items():
        rows = ds.dataset(
            list(files),
            schema=schema_to_pyarrow(table.schema(), include_field_ids=False),
            filesystem=filesystem_of(table),
            format="parquet",
        )
        names = list(withheld.of(tenant))
        datasets.append(rows.filter(~pc.field("trajectory_id").isin(names)) if names else rows)
    return datasets[0] if len(datasets) == 1 else ds.dataset(datasets)
