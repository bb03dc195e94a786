"""The sink of one topic: a record batch becomes commits of every table that the topic feeds.

Every table advances on its own. A crash between the commits of two tables leaves them at different
offsets, and each continues from its own. The tables of a topic are committed in a fixed order:
projections first, `events` last. Which records are copies of landed events, and which take their
place, is decided once for all of them, by the ids in `events` (see `repeats`). After every
`FAN_IN`-th batch small files are joined, in commits of their own: the batch can be read before.

On `CommitRefused` (another writer was faster) nothing is kept in memory. The caller drops its
batch, calls `reload` and continues from `position`.
"""

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Self

import polars as pl
from pyiceberg.table import Table

from atdp.lakehouse.decode import decode
from atdp.lakehouse.errors import CommitRefused, UndecodableRecord
from atdp.lakehouse.event_forms import FormDecision
from atdp.lakehouse.lake import Lake
from atdp.lakehouse.landed_ids import LandedIds
from atdp.lakehouse.manifests import FAN_IN
from atdp.lakehouse.poison_record import find_poison_record, is_caused_by_a_value
from atdp.lakehouse.positions import TopicIdentity
from atdp.lakehouse.record_batch import RecordBatch, rows_beyond
from atdp.lakehouse.repeats import (
    DECIDING_TABLE,
    FIRST_OFFSET,
    REPEAT,
    content_columns,
    marked,
    with_repeats_marked,
)
from atdp.lakehouse.row_ids import row_id
from atdp.lakehouse.table_sink import Committed, TableSink
from atdp.lakehouse.tables import TableDefinition, TableName, table_definitions
from atdp.schemas import SchemaName, TopicRole, topic

_log = logging.getLogger("atdp.lakehouse")

MakeSink = Callable[[TableDefinition, Table, TopicIdentity], TableSink]

_WHOLE_RECORD: Collection[TableName] = (
    "events",
    "audit",
    "quarantine_index",
    "evaluations",
    "control_events",
)
"""Tables whose columns are those of the record; decoding is cast to their types."""


@dataclass(slots=True)
class TopicSink:
    """The sinks of all tables that one topic feeds."""

    role: TopicRole
    sinks: list[TableSink]
    set_aside: Collection[tuple[int, int]] = ()
    """(partition, offset) of records that a person has decided to leave out."""
    landed: LandedIds | None = field(init=False)
    """Ids in the table that decides which records are copies; `None`: every record lands."""
    _writes: int = 0

    def __post_init__(self) -> None:
        decider = self._decider()
        self.landed = None
        if decider is not None:
            content = content_columns(decider.definition.name)
            self.landed = LandedIds(decider.layout, content)
            self.landed.follow(decider.table)

    @classmethod
    def open(
        cls,
        lake: Lake,
        role: TopicRole,
        identity: TopicIdentity,
        *,
        make: MakeSink = TableSink,
        set_aside: Collection[tuple[int, int]] = (),
    ) -> Self:
        """Return the sinks of every table whose source is `role`.

        Raises:
            TopicChanged: a table holds offsets of another incarnation of the topic.
            PositionsLost: a table has rows but no positions.
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
        """Return the offset to continue from: the smallest position of any table.

        None is the beginning.
        """
        offsets = [sink.position.get(partition) for sink in self.sinks]
        return None if None in offsets else min(offset for offset in offsets if offset is not None)

    def moves(self, batch: RecordBatch) -> bool:
        """Return whether committing `batch` would change the position of a table.

        An end of partition at which a table stands already, or an empty partition that was never
        read, changes nothing.
        """
        return any(
            offset > sink.position.get(partition, 0)
            for sink in self.sinks
            for partition, offset in batch.end.items()
        )

    def left_out(self, batch: RecordBatch) -> int:
        """Return how many records of `batch` are set aside."""
        return self._kept(batch).count(False)

    def reload(self) -> None:
        """Read every table and its positions again."""
        for sink in self.sinks:
            sink.reload()

    def write(self, batch: RecordBatch) -> list[Committed]:
        """Commit a batch to every table.

        Raises:
            UndecodableRecord: a record cannot be decoded or stored; the tables that lack it are
                unchanged.
            CommitRefused, TopicChanged, CatalogError: tables before the failing one are committed,
                the others are not.
        """
        frame = self.read(batch)
        committed = [self._write(sink, frame, batch.end) for sink in self.sinks]
        self._writes += 1
        if self._writes % FAN_IN == 0:
            self._join_small_files(frame.clear())
        return committed

    def read(self, batch: RecordBatch) -> pl.DataFrame:
        """Return the records that are not set aside, with copies of landed events marked.

        Raises:
            UndecodableRecord: a record cannot be decoded.
        """
        frame = self._decode(batch)
        decider = self._decider()
        if self.landed is None or decider is None:
            return marked(frame, FormDecision())
        decider.refresh_table()
        return with_repeats_marked(frame, self.landed, decider.table)

    def _decider(self) -> TableSink | None:
        """Return the sink of the table that holds each event of the topic once."""
        return next((sink for sink in self.sinks if sink.definition.name in DECIDING_TABLE), None)

    def _write(self, sink: TableSink, frame: pl.DataFrame, end: Mapping[int, int]) -> Committed:
        index = self.landed if sink is self._decider() else None
        rows = rows_beyond(frame, dict(sink.position)).filter(~pl.col(REPEAT))
        new = rows.filter(pl.col(FIRST_OFFSET).is_null())
        admit = None if index is None else partial(index.require_new, new)
        try:
            committed = sink.write(frame, end, admit)
        except Exception as error:
            if not is_caused_by_a_value(error):
                raise
            row = find_poison_record(frame, sink.write_files)
            if row is None:
                raise
            why = f"stored in {sink.definition.name}: {error}"
            raise self._undecodable(frame, row, why) from error
        if index is not None:
            index.add(sink.table, rows, committed.files, committed.moved)
        return committed

    def _join_small_files(self, no_rows: pl.DataFrame) -> None:
        """Join the small files of every table; where that fails they stay for the next time.

        The batch is committed already, so no failure of joining may stop the writer.
        """
        for sink in self.sinks:
            try:
                moved = sink.join_small_files()
            except CommitRefused:  # another writer has joined them first
                continue
            except Exception:  # noqa: BLE001 - catalogs and storage raise their own
                _log.exception("small files are not joined now")
                continue
            if moved and self.landed is not None and sink is self._decider():
                self.landed.add(sink.table, no_rows, (), moved)

    def _undecodable(self, origin: pl.DataFrame, row: int, why: str) -> UndecodableRecord:
        partition, offset = origin.select("kafka_partition", "kafka_offset").row(row)
        name = self.sinks[0].topic.name
        return UndecodableRecord(
            f"{name}[{partition}] offset {offset} cannot be {why}. "
            "Upgrade atdp when the schema is newer; to continue without this record, "
            f"start the lake writer with --set-aside {name}:{partition}:{offset}",
            row,
        )

    def _decode(self, batch: RecordBatch) -> pl.DataFrame:
        """Return the records that are not set aside, as columns."""
        columns: dict[str, pl.DataType] = {}
        for sink in self.sinks:
            if sink.definition.name in _WHOLE_RECORD:
                columns.update(sink.layout.frame_schema)
        origin = batch.origin()
        values = batch.values
        kept = self._kept(batch)
        if not all(kept):
            values = [value for value, keep in zip(values, kept, strict=True) if keep]
            origin = origin.filter(pl.Series(kept, dtype=pl.Boolean))
            _log.warning(
                "records set aside, as the options ask for",
                extra={"topic": self.role, "records": kept.count(False)},
            )
        try:
            decoded = decode(self.schema, values, columns)
        except UndecodableRecord as error:
            raise self._undecodable(origin, error.index, f"read: {error}") from error
        frame = decoded.hstack(origin)
        decider = self._decider()
        return frame if decider is None else frame.with_columns(row_id(decider.definition.name))

    def _kept(self, batch: RecordBatch) -> list[bool]:
        """Return for each record whether it is to be landed; empty when none is set aside."""
        if not self.set_aside:
            return []
        return [
            place not in self.set_aside
            for place in zip(batch.partitions, batch.offsets, strict=True)
        ]
