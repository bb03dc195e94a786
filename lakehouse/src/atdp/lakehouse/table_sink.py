"""The sink of one table: rows of record batches become its commits, each exactly once.

A table has its own positions and advances on its own. Rows that it already has are removed before
they are written: those before its position, and copies of events (see `repeats`). Rows whose event
was governed again take the place of those that the table has, in the same commit (see `rewrites`).
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import polars as pl
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table

from atdp.lakehouse import commit
from atdp.lakehouse.errors import CommitRefused, WriteTooOld
from atdp.lakehouse.layout import Layout
from atdp.lakehouse.positions import (
    Advance,
    Positions,
    TopicIdentity,
    positions_of,
    require_same_topic,
)
from atdp.lakehouse.projections import rows_of
from atdp.lakehouse.record_batch import rows_beyond
from atdp.lakehouse.repeats import CONFLICT, DECIDING_TABLE, REPEAT, at_their_places
from atdp.lakehouse.retention import GRACE_S, KEEP_SNAPSHOTS
from atdp.lakehouse.rewrites import Rewrite, join_small_files, without_rows
from atdp.lakehouse.tables import REGOVERNED_OFFSET, TableDefinition, TableName

Clock = Callable[[], float]


@dataclass(frozen=True, kw_only=True, slots=True)
class Committed:
    """The result of committing one batch to one table."""

    table: TableName
    rows: int
    repeats: int
    """Rows that were left out, since another copy of their event landed before."""
    conflicts: int
    """Repeats with other content than the copy that landed."""
    replaced: int
    """Rows of the table that were replaced by some of `rows`."""
    seconds: float
    files: Sequence[str]
    """Paths of the new data files with `rows`."""
    moved: Mapping[str, str | None]
    """Path of a file that the commit removed → path of the file with its rows that stay (None: it
    has none)."""


@dataclass(slots=True)
class TableSink:
    """One table: its layout and its positions.

    On `CommitRefused` (another writer was faster) nothing is kept in memory. The caller drops its
    batch, calls `reload` and continues from `position`.
    """

    definition: TableDefinition
    table: Table
    topic: TopicIdentity
    layout: Layout = field(init=False)
    position: dict[int, int] = field(init=False)
    """Partition → next offset."""
    clock: Clock = time.monotonic

    def __post_init__(self) -> None:
        self._load_state()

    def reload(self) -> None:
        """Read the table and its positions again, after another writer's commit."""
        self.table = self.table.catalog.load_table(self.table.name())
        self._load_state()

    def write(
        self, frame: pl.DataFrame, end: Mapping[int, int], admit: commit.Admit | None = None
    ) -> Committed:
        """Add the rows of `frame` that the table lacks, replace others, and advance to `end`.

        The frame is marked (see `repeats`). `admit` sees the table of each attempt
        and may refuse it.

        Raises:
            CommitRefused, TopicChanged, WriteTooOld, CatalogError: nothing was committed.
        """
        began = self.clock()
        start = {partition: self.position.get(partition) for partition in end}
        ahead = {partition: max(offset, start[partition] or 0) for partition, offset in end.items()}
        marked = self._rows(rows_beyond(frame, start))
        fresh = marked.filter(~pl.col(REPEAT))
        files = self.layout.write(fresh)
        rewrite = self._without_replaced(fresh, start)
        self._require_young_files(began)
        advance = Advance(topic=self.topic, start=start, end=ahead)
        self.table = self._commit([*files, *rewrite.files], [*rewrite.moved], advance, admit)
        self._set_position(positions_of(self.table.metadata))
        return Committed(
            table=self.definition.name,
            rows=fresh.height,
            repeats=marked.height - fresh.height,
            conflicts=int(marked[CONFLICT].sum()),
            replaced=rewrite.rows,
            seconds=self.clock() - began,
            files=[file.file_path for file in files],
            moved=rewrite.moved,
        )

    def join_small_files(self) -> Mapping[str, str | None]:
        """Join small files in a commit that moves no position; return where their rows are now.

        Raises:
            CommitRefused, WriteTooOld, CatalogError: nothing was committed.
        """
        began = self.clock()
        self.refresh_table()
        rewrite = join_small_files(self.layout, self.table)
        self._require_young_files(began)
        if rewrite.moved:
            stay = Advance(topic=self.topic, start={}, end={})
            self.table = self._commit(rewrite.files, [*rewrite.moved], stay, None)
        return rewrite.moved

    def write_files(self, frame: pl.DataFrame) -> list[DataFile]:
        """Write all rows of `frame` without a commit, to find out whether that is possible."""
        return self.layout.write(self._rows(frame))

    def refresh_table(self) -> None:
        """Read the table again, for what other writers added; the positions stay as they are."""
        self.table = self.table.catalog.load_table(self.table.name())

    def _load_state(self) -> None:
        self.layout = Layout.of(self.definition, self.table)
        self._set_position(positions_of(self.table.metadata))

    def _rows(self, frame: pl.DataFrame) -> pl.DataFrame:
        placed = at_their_places(frame)
        return rows_of(self.definition.name, placed, self.layout.frame_schema, datetime.now(UTC))

    def _without_replaced(self, fresh: pl.DataFrame, start: Mapping[int, int | None]) -> Rewrite:
        """Write the files again that hold rows which `fresh` replaces, without these rows.

        The table can only have a row whose place is before its position.
        """
        if REGOVERNED_OFFSET not in fresh.columns:
            return Rewrite(moved={})
        reached = {partition: offset or 0 for partition, offset in start.items()}
        position = pl.col("kafka_partition").replace_strict(
            reached, default=0, return_dtype=pl.Int64
        )
        replaced = fresh.filter(
            pl.col(REGOVERNED_OFFSET).is_not_null() & (pl.col("kafka_offset") < position)
        )
        if replaced.is_empty():
            return Rewrite(moved={})
        self.refresh_table()
        rewrite = without_rows(self.layout, self.table, replaced)
        if self.definition.name in DECIDING_TABLE and rewrite.rows != replaced.height:
            raise CommitRefused(
                f"{self.definition.name} has {rewrite.rows} of the {replaced.height} rows that "
                "this batch replaces; it is read again"
            )
        return rewrite

    def _commit(
        self,
        files: Sequence[DataFile],
        removed: Collection[str],
        advance: Advance,
        admit: commit.Admit | None,
    ) -> Table:
        return commit.append(
            self.table,
            files,
            advance.applied_to,
            removed=removed,
            admit=admit,
            keep_snapshots=KEEP_SNAPSHOTS,
        )

    def _require_young_files(self, began: float) -> None:
        waited_s = self.clock() - began
        if waited_s > GRACE_S / 2:
            raise WriteTooOld(
                f"files for {self.definition.name} waited {waited_s:.0f} s for their commit, "
                "so garbage collection may have deleted them; they are written again"
            )

    def _set_position(self, positions: Positions | None) -> None:
        if positions is not None:
            require_same_topic(positions, self.topic)
        self.position = {} if positions is None else dict(positions.next)
