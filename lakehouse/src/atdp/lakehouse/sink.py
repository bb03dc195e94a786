"""The sink: record batches of a topic become commits of its tables, each exactly once.

Every table has its own positions and moves on its own: a crash between two tables' commits leaves
them at different offsets, and each resumes from its own; rows that a table has already are filtered
out before it is written. Tables of one topic are committed in a fixed order, projections first,
`events` last.

On `CommitRefused` (another writer was faster) the sink holds nothing: the caller drops its batch,
calls `reload` and reads on from `positions`.
"""

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import polars as pl
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table

from atdp.lakehouse import commit
from atdp.lakehouse.decode import decode
from atdp.lakehouse.errors import UndecodableRecord, WriteTooOld
from atdp.lakehouse.lake import Lake
from atdp.lakehouse.layout import Layout
from atdp.lakehouse.poison_record import blames_a_record, first_unstorable
from atdp.lakehouse.positions import (
    Advance,
    Positions,
    TopicIdentity,
    positions_of,
    require_same_topic,
)
from atdp.lakehouse.projections import rows_of
from atdp.lakehouse.records import REDELIVERED, RecordBatch, beyond
from atdp.lakehouse.redelivery import ONCE_PER_EVENT, REMEMBERED_S, SentBefore, without_repeats
from atdp.lakehouse.retention import GRACE_S, KEEP_SNAPSHOTS
from atdp.lakehouse.tables import TableDefinition, TableName, table_definitions
from atdp.schemas import SchemaName, TopicRole, topic

_log = logging.getLogger("atdp.lakehouse")

Clock = Callable[[], float]


@dataclass(frozen=True, kw_only=True)
class Committed:
    """What one table took from one batch."""

    table: TableName
    rows: int
    repeats: int
    """Redelivered rows that were there already."""
    seconds: float


@dataclass
class TableSink:
    """One table: its layout, and where it stands."""

    definition: TableDefinition
    table: Table
    topic: TopicIdentity
    layout: Layout = field(init=False)
    position: dict[int, int] = field(init=False)
    sent_before: SentBefore = field(init=False)
    clock: Clock = time.monotonic
    _remembered_at: float = field(init=False)

    def __post_init__(self) -> None:
        self.layout = Layout.of(self.definition, self.table)
        self._stand_at(positions_of(self.table.metadata))
        self._remember()

    def reload(self) -> None:
        """Read the table and its positions again, after another writer's commit."""
        self.table = self.table.catalog.load_table(self.table.name())
        self.__post_init__()

    def write(self, frame: pl.DataFrame, end: Mapping[int, int]) -> Committed:
        """Append what the table lacks of `frame` and move to `end`.

        Raises:
            CommitRefused, TopicChanged, WriteTooOld, CatalogError: nothing was committed.
        """
        began = self.clock()
        start = {partition: self.position.get(partition) for partition in end}
        ahead = {partition: max(offset, start[partition] or 0) for partition, offset in end.items()}
        marked = self._rows(beyond(frame, start))
        if began - self._remembered_at > REMEMBERED_S:  # those of yesterday fall out
            self._remember()
        fresh = self._fresh(marked)
        files = self.layout.write(fresh.drop(REDELIVERED))
        self._before_commit(began)
        advance = Advance(topic=self.topic, start=start, end=ahead)
        self.table = self._commit(files, advance)
        self._stand_at(positions_of(self.table.metadata))
        self.sent_before = self.sent_before.with_rows(
            fresh.filter(REDELIVERED, pl.col("event_id").is_not_null())
        )
        return Committed(
            table=self.definition.name,
            rows=fresh.height,
            repeats=marked.height - fresh.height,
            seconds=self.clock() - began,
        )

    def write_files(self, frame: pl.DataFrame) -> list[DataFile]:
        """Write all of `frame` and commit nothing: to find out whether it can be written."""
        return self.layout.write(self._rows(frame).drop(REDELIVERED))

    def _fresh(self, rows: pl.DataFrame) -> pl.DataFrame:
        if self.definition.name not in ONCE_PER_EVENT:
            return rows
        return without_repeats(rows, self.table, self.sent_before)

    def _remember(self) -> None:
        looked_up = self.definition.name in ONCE_PER_EVENT
        self.sent_before = (
            SentBefore.of(self.table, datetime.now(UTC)) if looked_up else SentBefore()
        )
        self._remembered_at = self.clock()

    def _rows(self, frame: pl.DataFrame) -> pl.DataFrame:
        return rows_of(self.definition.name, frame, self.layout.frame_schema, datetime.now(UTC))

    def _commit(self, files: Sequence[DataFile], advance: Advance) -> Table:
        return commit.append(self.table, files, advance.applied_to, keep_snapshots=KEEP_SNAPSHOTS)

    def _before_commit(self, began: float) -> None:
        waited_s = self.clock() - began
        if waited_s > GRACE_S / 2:
            raise WriteTooOld(
                f"files for {self.definition.name} waited {waited_s:.0f} s for their commit and may be collected; writing them again"
            )

    def _stand_at(self, positions: Positions | None) -> None:
        if positions is not None:
            require_same_topic(positions, self.topic)
        self.position = {} if positions is None else dict(positions.next)


@dataclass
class TopicSink:
    """The tables fed by one topic."""

    role: TopicRole
    sinks: list[TableSink]
    set_aside: Collection[tuple[int, int]] = ()
    """(partition, offset) of records that a person has decided to leave out."""

    @classmethod
    def open(
        cls,
        lake: Lake,
        role: TopicRole,
        identity: TopicIdentity,
        *,
        make: Callable[[TableDefinition, Table, TopicIdentity], TableSink] = TableSink,
        set_aside: Collection[tuple[int, int]] = (),
    ) -> "TopicSink":
        """The sinks of every table whose source is `role`.

        Raises:
            TopicChanged, PositionsLost: see there.
        """
        sinks = [
            make(definition, lake.table(definition.name), identity)
            for definition in table_definitions().values()
            if definition.source == role
        ]
        return cls(role, sinks, set_aside)

    @property
    def schema(self) -> SchemaName:
        """The contract of the topic's values."""
        return topic(self.role).schema

    def position(self, partition: int) -> int | None:
        """Where to read on: the smallest position of any table; `None`: from the beginning."""
        found = [sink.position.get(partition) for sink in self.sinks]
        return None if None in found else min(offset for offset in found if offset is not None)

    def moves(self, batch: RecordBatch) -> bool:
        """Whether committing `batch` would change any table's position.

        An end of partition that a table stands at already, or an empty partition that was never
        read, moves nothing.
        """
        return any(
            offset > sink.position.get(partition, 0)
            for sink in self.sinks
            for partition, offset in batch.end.items()
        )

    def left_out(self, batch: RecordBatch) -> int:
        """How many records of `batch` are set aside."""
        if not self.set_aside:
            return 0
        return sum(
            place in self.set_aside for place in zip(batch.partitions, batch.offsets, strict=True)
        )

    def reload(self) -> None:
        """Forget what is held in memory and read every table's positions again."""
        for sink in self.sinks:
            sink.reload()

    def write(self, batch: RecordBatch) -> list[Committed]:
        """Commit a batch to every table.

        Raises:
            UndecodableRecord: a record cannot be read or stored; the tables that lack it are
                unchanged.
            CommitRefused, TopicChanged, CatalogError: tables before the failing one are committed,
                the others not.
        """
        frame = self._frame(batch)
        return [self._write(sink, frame, batch.end) for sink in self.sinks]

    def _write(self, sink: TableSink, frame: pl.DataFrame, end: Mapping[int, int]) -> Committed:
        try:
            return sink.write(frame, end)
        except Exception as error:
            if (
                not blames_a_record(error)
                or (row := first_unstorable(frame, sink.write_files)) is None
            ):
                raise
            raise self._named(frame, row, f"stored in {sink.definition.name}: {error}") from error

    def _named(self, origin: pl.DataFrame, row: int, why: str) -> UndecodableRecord:
        partition, offset = origin.select("kafka_partition", "kafka_offset").row(row)
        name = self.sinks[0].topic.name
        return UndecodableRecord(
            f"{name}[{partition}] offset {offset} cannot be {why}. Upgrade atdp when the schema is newer; to go on without "
            f"this record, start the lake writer with --set-aside {name}:{partition}:{offset}",
            row,
        )

    def _frame(self, batch: RecordBatch) -> pl.DataFrame:
        columns: dict[str, pl.DataType] = {}
        for sink in self.sinks:
            if sink.definition.name in _WHOLE_RECORD:
                columns.update(sink.layout.frame_schema)
        origin = batch.origin()
        values = batch.values
        if self.set_aside:
            kept = [
                place not in self.set_aside
                for place in zip(batch.partitions, batch.offsets, strict=True)
            ]
            values = [value for value, keep in zip(values, kept, strict=True) if keep]
            origin = origin.filter(pl.Series(kept, dtype=pl.Boolean))
            if (left_out := len(kept) - len(values)) > 0:
                _log.warning(
                    "records left out as told", extra={"topic": self.role, "records": left_out}
                )
        try:
            decoded = decode(self.schema, values, columns)
        except UndecodableRecord as error:
            raise self._named(origin, error.index, f"read: {error}") from error
        return decoded.hstack(origin)


_WHOLE_RECORD: Collection[TableName] = ("events", "audit", "quarantine_index")
