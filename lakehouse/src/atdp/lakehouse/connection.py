"""Connections: SQL over exactly the rows that a caller may see.

The boundary is *which files are listed*. Tenant and allowed purposes are identity partitions, so
the files of one tenant that allow one purpose hold nothing else; they, and no other path of the
machine, are what the DuckDB instance may open (`allowed_paths`, then
`enable_external_access=false`, then `lock_configuration=true`). A view could not do that: whoever
can read a view's file reads the whole file. Time and rows are bounded per statement, memory and
threads per connection.

A connection stands at the snapshots it was opened with; open a new one to see newer rows. Opening
takes a few milliseconds, since manifests are cached.
"""

import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from types import TracebackType
from typing import Self

import duckdb
import pyarrow as pa
from pyiceberg.table import Table

from atdp.lakehouse.duck_types import empty_relation, field_map, quoted, text
from atdp.lakehouse.errors import LakehouseError, QueryFailed, SnapshotGone
from atdp.lakehouse.lake import NO_SNAPSHOT, Lake, open_lake
from atdp.lakehouse.manifests import ListedFile, files_of
from atdp.lakehouse.result import Result
from atdp.lakehouse.statement import explain, require_single_select
from atdp.lakehouse.storage import filesystem_of, is_local, path_in_filesystem
from atdp.lakehouse.tables import (
    PURPOSE_SEPARATOR,
    READ_ORDER,
    TableDefinition,
    TableName,
    table_definitions,
)
from atdp.runtime import Home

VIEWS: Sequence[str] = ("latest_rewards", "steps", "trajectories")
MACROS: Sequence[str] = ("held_out",)

ANALYTICS = "analytics"

ANY_PURPOSE = "*"
"""Every row, whatever it may be used for: for deciding about rows by their stamps. No purpose can
have this name."""


_BATCH_ROWS = 1024  # one batch beyond the limits is held besides: smaller costs time, larger memory


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What one connection and one statement may use."""

    memory: str = "1GB"
    threads: int = 2
    timeout_s: float = 60.0
    max_rows: int = 1_000_000
    """More rows than this fail the statement: nobody reads them, and they are held in memory."""
    max_bytes: int = 1024**3
    """The same for the result's size as Arrow: a row may be of any size."""


class Connection:
    """A locked-down DuckDB over the files of one tenant (or all) that allow one purpose (or any)."""

    def __init__(
        self,
        lake: Lake,
        *,
        tenant: str | None,
        purpose: str,
        snapshots: Mapping[TableName, int] | None = None,
        limits: Limits | None = None,
    ) -> None:
        self.tenant, self.purpose = tenant, purpose
        self._limits = limits or Limits()
        self._duck = duckdb.connect(config={"threads": self._limits.threads})
        self._busy = threading.Lock()
        # Also at interpreter exit: DuckDB's binding prints a long report about every connection
        # left open.
        self._close = weakref.finalize(self, self._duck.close)
        try:
            self.snapshots = self._attach(lake, snapshots)
            self._lock_down()
        except BaseException:
            self._close()
            raise

    def sql(
        self,
        query: str,
        *,
        max_rows: int | None = None,
        max_bytes: int | None = None,
        timeout_s: float | None = None,
    ) -> Result:
        """Run one SELECT.

        Raises:
            QueryRefused: it is not exactly one SELECT.
            QueryFailed: it is wrong, took longer than `timeout_s`, or has more than `max_rows` rows
                or `max_bytes` bytes.
        """
        rows = self._limits.max_rows if max_rows is None else max_rows
        size = self._limits.max_bytes if max_bytes is None else max_bytes
        with (
            self._busy,
            self._interrupted_after(self._limits.timeout_s if timeout_s is None else timeout_s),
        ):
            statement = require_single_select(self._duck, query)
            try:
                return Result(
                    _at_most(self._duck.sql(statement).to_arrow_reader(_BATCH_ROWS), rows, size)
                )
            except duckdb.InterruptException as error:
                raise QueryFailed(
                    f"the statement ran longer than {timeout_s or self._limits.timeout_s:g} s and was stopped; narrow it down "
                    "(tenant, days, LIMIT)"
                ) from error
            except duckdb.Error as error:
                raise QueryFailed(explain(error)) from error
            except (
                pa.ArrowException,
                OSError,
                MemoryError,
            ) as error:  # while the result is turned into Arrow
                raise QueryFailed(
                    f"the result does not fit into memory ({str(error) or 'out of memory'}); select fewer or smaller columns"
                ) from error

    def close(self) -> None:
        """Let go of memory and files."""
        self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _attach(self, lake: Lake, wanted: Mapping[TableName, int] | None) -> dict[TableName, int]:
        local: list[str] = []
        chosen: dict[TableName, int] = {}
        for name in READ_ORDER:  # events first: see tables.READ_ORDER
            table = lake.table(name)
            chosen[name] = _snapshot(table, name, wanted)
            files = [
                file
                for file in files_of(table, chosen[name])
                if self._may_see(table_definitions()[name], file)
            ]
            local += self._show(name, table, files)
        self._duck.execute("SET TimeZone = 'UTC'")
        self._duck.execute(f"SET allowed_paths = [{', '.join(map(text, local))}]")
        for folder, names in (("macros", MACROS), ("views", VIEWS)):
            for each in names:
                file = resources.files(f"atdp.lakehouse.{folder}").joinpath(f"{each}.sql")
                self._duck.execute(file.read_text("utf-8"))
        return chosen

    def _may_see(self, definition: TableDefinition, file: ListedFile) -> bool:
        if self.tenant is not None and file.partition[0] != self.tenant:
            return False
        if self.purpose == ANY_PURPOSE:
            return True
        if not definition.governed:  # what the gate says about data is for analysis only
            return self.purpose == ANALYTICS
        return self.purpose in str(file.partition[1]).split(PURPOSE_SEPARATOR)

    def _show(self, name: TableName, table: Table, files: Sequence[ListedFile]) -> list[str]:
        """Make the table's view; returns the local paths that it opens."""
        schema = table.schema()
        if not files:
            self._duck.execute(f"CREATE VIEW {quoted(name)} AS {empty_relation(schema)}")
            return []
        paths = [path_in_filesystem(file.path) for file in files]
        if not is_local(
            table.location()
        ):  # DuckDB's wheel has no httpfs: pyarrow reads, with pushed-down columns
            import pyarrow.dataset as ds  # takes longer to import than a query to run

            self._duck.register(
                name, ds.dataset(paths, filesystem=filesystem_of(table), format="parquet")
            )
            return []
        listed = ", ".join(map(text, paths))
        self._duck.execute(
            f"CREATE VIEW {quoted(name)} AS FROM read_parquet([{listed}], schema = {field_map(schema)})"
        )
        return paths

    def _lock_down(self) -> None:
        for setting in (
            f"memory_limit = {text(self._limits.memory)}",
            "parquet_metadata_cache = true",
            "python_enable_replacements = false",
            "autoload_known_extensions = false",
            "autoinstall_known_extensions = false",
            "allow_community_extensions = false",
            "max_temp_directory_size = '0B'",
            "temp_directory = ''",  # its folder (default: .tmp where the process runs) could be read and written
            "enable_external_access = false",
            "lock_configuration = true",
        ):
            self._duck.execute(f"SET {setting}")
        folders = self._duck.sql("SELECT current_setting('allowed_directories')").fetchall()
        if folders != [([],)]:
            raise LakehouseError(
                f"DuckDB would let statements into {folders}; this version of it is not known to be safe"
            )

    @contextmanager
    def _interrupted_after(self, seconds: float) -> Iterator[None]:
        timer = threading.Timer(seconds, self._duck.interrupt)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()  # one that is just firing would interrupt the next statement


def connect(
    home: Home | Path | str | None = None,
    *,
    tenant: str | None = None,
    purpose: str | None = None,
    snapshots: Mapping[TableName, int] | None = None,
    lake: Lake | None = None,
    limits: Limits | None = None,
) -> Connection:
    """Open a connection to the lake of a home (default: `ATDP_HOME`).

    Args:
        home: whose lake; ignored when `lake` is given.
        tenant: whose rows; `None` is the operator, who sees all tenants.
        purpose: only rows that allow it; `ANY_PURPOSE` is every row, allowed or not. Default:
            `analytics` for a tenant, every row for the operator.
        snapshots: table → snapshot id, as `Lake.snapshots` or a dataset gives them; default: the
            newest.
        lake: an open lake to use.
        limits: memory, threads, time and rows.

    Raises:
        SnapshotGone: a snapshot has been expired.
        CatalogError: the catalog cannot be opened.
    """
    default = ANY_PURPOSE if tenant is None else ANALYTICS
    return Connection(
        lake or open_lake(home),
        tenant=tenant,
        purpose=default if purpose is None else purpose,
        snapshots=snapshots,
        limits=limits,
    )


def _snapshot(table: Table, name: TableName, wanted: Mapping[TableName, int] | None) -> int:
    if wanted is None:
        current = table.current_snapshot()
        return NO_SNAPSHOT if current is None else current.snapshot_id
    if name not in wanted:
        raise LakehouseError(
            f"the given snapshots name no {name}; give all of {', '.join(READ_ORDER)}"
        )
    snapshot_id = wanted[name]
    if snapshot_id != NO_SNAPSHOT and table.metadata.snapshot_by_id(snapshot_id) is None:
        raise SnapshotGone(
            f"snapshot {snapshot_id} of {name} has been expired: only tagged snapshots stay for long. Create a dataset "
            "before reading (`atdp dataset create`), and read that"
        )
    return snapshot_id


def _at_most(reader: pa.RecordBatchReader, max_rows: int, max_bytes: int) -> pa.Table:
    batches, rows, size = [], 0, 0
    for batch in reader:
        rows += batch.num_rows
        size += batch.nbytes
        if rows > max_rows:
            raise QueryFailed(f"the result has more than {max_rows} rows; add a LIMIT or aggregate")
        if size > max_bytes:
            raise QueryFailed(
                f"the result has more than {max_bytes} bytes; select fewer or smaller columns, add a LIMIT or aggregate"
            )
        batches.append(batch)
    return pa.Table.from_batches(batches, schema=reader.schema)
