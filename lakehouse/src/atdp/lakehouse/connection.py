"""Connections: SQL over exactly the rows that a caller may see.

A connection is a DuckDB instance of its own that can open only the files of its caller's scope (see
`visible_files`). Time, rows and bytes are limited per statement, memory and threads per connection.

A connection shows the snapshots it was opened with; open a new one to see newer rows. Opening takes
a few milliseconds, since manifests are cached.
"""

import threading
import weakref
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import duckdb
import pyarrow as pa

from atdp.access import UseRules
from atdp.lakehouse.errors import QueryFailed
from atdp.lakehouse.lake import Lake, open_lake
from atdp.lakehouse.permitted_use import Question, use_question
from atdp.lakehouse.query_result import QueryResult
from atdp.lakehouse.statement import error_text, require_single_select
from atdp.lakehouse.tables import TableName
from atdp.lakehouse.visible_files import (
    ANALYTICS,
    ANY_PURPOSE,
    AUDIT,
    Scope,
    attach_tables,
    lock_down,
)
from atdp.lakehouse.withheld import UseQuestion, Withheld
from atdp.runtime import Home

_BATCH_ROWS = 1024
"""Rows per batch of a result. One batch beyond the limits is held in memory. Smaller batches cost
time, larger ones memory."""
_LONG_S = 3600.0
"""Time for a statement of the platform's own; a person's has 60 s."""
_NO_LIMIT = 1 << 50
"""Limit of rows and of bytes that no result reaches."""


@dataclass(frozen=True, kw_only=True, slots=True)
class QueryLimits:
    """Limits of one connection and of each of its statements."""

    memory: str = "1GB"
    """Memory of the connection, in the notation of DuckDB."""
    threads: int = 2
    timeout_s: float = 60.0
    max_rows: int = 1_000_000
    """A statement with more rows fails. Nobody reads that many, and they are held in memory."""
    max_bytes: int = 1024**3
    """A statement whose result is larger as Arrow fails, since a row may be of any size."""


_STAMPED: Final[tuple[TableName, ...]] = ("events",)
"""The tables that questions about what is withheld read."""


class Connection:
    """A locked-down DuckDB over the files of one tenant (or all) that allow one purpose (or any).

    Made by `connect`. One statement runs at a time; further threads wait.
    """

    def __init__(
        self,
        lake: Lake,
        scope: Scope,
        *,
        snapshots: Mapping[TableName, int] | None = None,
        limits: QueryLimits | None = None,
        withheld: Withheld = Withheld(),  # noqa: B008 - it never changes
        only: Collection[TableName] | None = None,
    ) -> None:
        """Open the files of a scope, without the trajectories that are `withheld`.

        With `only`, these tables alone can be read, and no view; that takes a fraction of the time.
        """
        self.tenant, self.purpose = scope.tenant, scope.purpose
        self._limits = limits or QueryLimits()
        self._duck = duckdb.connect(config={"threads": self._limits.threads})
        self._running = threading.Lock()
        # Also at interpreter exit: DuckDB's binding prints a long report about every connection
        # that is still open.
        self._close = weakref.finalize(self, self._duck.close)
        try:
            self.snapshots = attach_tables(self._duck, lake, scope, snapshots, withheld, only)
            lock_down(self._duck, memory=self._limits.memory)
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
    ) -> QueryResult:
        """Run one SELECT; the limits default to those of the connection.

        Raises:
            QueryRefused: it is not exactly one SELECT.
            QueryFailed: it is wrong, took longer than `timeout_s`, or has more than `max_rows` rows
                or `max_bytes` bytes.
        """
        rows = self._limits.max_rows if max_rows is None else max_rows
        size = self._limits.max_bytes if max_bytes is None else max_bytes
        seconds = self._limits.timeout_s if timeout_s is None else timeout_s
        with self._running, self._interrupted_after(seconds):
            statement = require_single_select(self._duck, query)
            try:
                reader = self._duck.sql(statement).to_arrow_reader(_BATCH_ROWS)
                return QueryResult(_read_at_most(reader, rows, size))
            except duckdb.InterruptException as error:
                raise QueryFailed(
                    f"the statement ran longer than {timeout_s or self._limits.timeout_s:g} s "
                    "and was stopped; narrow it down (tenant, days, LIMIT)"
                ) from error
            except duckdb.Error as error:
                raise QueryFailed(error_text(error)) from error
            except (pa.ArrowException, OSError, MemoryError) as error:
                # These come while the result is turned into Arrow.
                raise QueryFailed(
                    f"the result does not fit into memory ({str(error) or 'out of memory'}); "
                    "select fewer or smaller columns"
                ) from error

    def all_rows(self, query: str) -> list[dict[str, Any]]:
        """Run one SELECT of the platform's own, without limits, and return its rows."""
        result = self.sql(query, max_rows=_NO_LIMIT, max_bytes=_NO_LIMIT, timeout_s=_LONG_S)
        return result.dicts()

    def close(self) -> None:
        """Release memory and files."""
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

    @contextmanager
    def _interrupted_after(self, seconds: float) -> Iterator[None]:
        timer = threading.Timer(seconds, self._duck.interrupt)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()  # otherwise a timer that fires now would interrupt the next statement


def connect(
    home: Home | Path | str | None = None,
    *,
    tenant: str | None = None,
    purpose: str | None = None,
    snapshots: Mapping[TableName, int] | None = None,
    lake: Lake | None = None,
    limits: QueryLimits | None = None,
) -> Connection:
    """Open a connection to the lake of a home (default: `ATDP_HOME`).

    A connection for a purpose shows no trajectory that consent or retention withhold now, nor one
    that the platform may not train on, replay or export by the access policies. One for
    `ANY_PURPOSE` is the operator's and is not asked.

    Args:
        home: the home of the lake; ignored when `lake` is given.
        tenant: the tenant whose rows are shown; None is the operator, who sees all tenants.
        purpose: show only rows that allow it; `ANY_PURPOSE` shows every row, allowed or not.
            Default: `analytics` for a tenant, every row for the operator. By default and for
            `analytics`, the views count self-rewards that the policy accepts for analytics.
        snapshots: table → snapshot id, as `Lake.snapshots` or a dataset gives them; default: the
            newest.
        lake: an open lake to use.
        limits: memory, threads, time, rows and bytes.

    Raises:
        SnapshotGone: a snapshot has been expired.
        CatalogError: the catalog cannot be opened.
        RulesUnreadable: it is for a purpose, and the register cannot be read.
    """
    default = ANY_PURPOSE if tenant is None else ANALYTICS
    scope = Scope(
        tenant=tenant,
        purpose=default if purpose is None else purpose,
        counts_self_rewards=purpose in (None, ANALYTICS),
    )
    lake = lake or open_lake(home)
    if scope.purpose in (ANY_PURPOSE, AUDIT):
        return Connection(lake, scope, snapshots=snapshots, limits=limits)
    withheld, snapshots = withheld_now(lake, scope, snapshots)
    return Connection(lake, scope, snapshots=snapshots, limits=limits, withheld=withheld)


def withheld_now(
    lake: Lake, scope: Scope, snapshots: Mapping[TableName, int] | None = None
) -> tuple[Withheld, Mapping[TableName, int] | None]:
    """Return what is withheld for the purpose of a scope now, and the snapshots it was read from.

    The snapshots are the given ones where no row had to be read.

    Raises:
        RulesUnreadable: the register cannot be read.
        SnapshotGone: a snapshot has been expired.
    """
    question = use_question(
        lake,
        purpose=scope.purpose,
        tenants=None if scope.tenant is None else [scope.tenant],
        now=datetime.now(UTC),
    )
    return ask_lake(question, lake, snapshots)


def withheld_by(lake: Lake, rules: UseRules, *, purpose: str, tenants: Collection[str]) -> Withheld:
    """Return what rules withhold of the newest rows of tenants for a purpose."""
    question = UseQuestion(rules=rules, tenants=tenants, purpose=purpose, now=datetime.now(UTC))
    return ask_lake(question, lake, None)[0]


def ask_lake(
    question: Question, lake: Lake, snapshots: Mapping[TableName, int] | None
) -> tuple[Withheld, Mapping[TableName, int] | None]:
    """Ask a question about some snapshots (None: the newest), which are opened only if needed.

    The newest rows are asked as well: an event that landed after the given snapshots can withhold
    its trajectory, whose earlier events are in them.

    Returns:
        What is withheld, and the snapshots that the answer is from.
    """
    tenants = question.tenants
    only = next(iter(tenants)) if tenants is not None and len(tenants) == 1 else None
    everything = Scope(tenant=only, purpose=ANY_PURPOSE)
    with ExitStack() as opened:
        pinned = snapshots

        def rows_of(
            statement: str, wanted: Mapping[TableName, int] | None
        ) -> tuple[list[dict[str, Any]], Mapping[TableName, int]]:
            connection = opened.enter_context(
                Connection(lake, everything, snapshots=wanted, only=_STAMPED)
            )
            return connection.all_rows(statement), connection.snapshots

        def select(statement: str) -> list[dict[str, Any]]:
            nonlocal pinned
            rows, pinned = rows_of(statement, pinned)
            if snapshots is not None and lake.snapshots()["events"] != pinned["events"]:
                rows += rows_of(statement, None)[0]
            return rows

        return question.ask(select), pinned


def _read_at_most(reader: pa.RecordBatchReader, max_rows: int, max_bytes: int) -> pa.Table:
    batches, rows, size = [], 0, 0
    for batch in reader:
        rows += batch.num_rows
        size += batch.nbytes
        if rows > max_rows:
            raise QueryFailed(f"the result has more than {max_rows} rows; add a LIMIT or aggregate")
        if size > max_bytes:
            raise QueryFailed(
                f"the result has more than {max_bytes} bytes; select fewer or smaller columns, "
                "add a LIMIT or aggregate"
            )
        batches.append(batch)
    return pa.Table.from_batches(batches, schema=reader.schema)
