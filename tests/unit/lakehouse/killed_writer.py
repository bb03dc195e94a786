"""A writer of a small lake that is killed between any two commits, and a catalog that is unsure."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from atdp.lakehouse import CatalogError, Lake
from atdp.lakehouse.record_batch import RecordBatch
from atdp.lakehouse.testing import LogDouble
from atdp.lakehouse.topic_sink import TopicSink

TABLES = ("events", "generations", "rewards")
STEPS = st.tuples(
    st.integers(1, 12),
    st.sampled_from([0, 1, 2, 3, 3]),
    st.lists(st.sampled_from(["ok", "lost before", "lost after"]), max_size=3),
)
"""A step of a writer: records, tables that it commits before it dies, answers of the catalog."""


def rows_of(lake: Lake, table: str) -> list[dict[str, Any]]:
    """Return the rows of one of `TABLES`."""
    rows: list[dict[str, Any]] = lake.table(table).scan().to_arrow().to_pylist()  # type: ignore[arg-type]  # a name of a table
    return rows


@dataclass(frozen=True, slots=True)
class Record:
    """One record of the log, as the consumer hands it to a batch."""

    value: bytes
    partition: int
    offset: int
    arrived_ms: int
    redelivered: bool
    regoverned: bool

    def add_to(self, batch: RecordBatch) -> None:
        batch.add(
            self.value,
            self.partition,
            self.offset,
            arrived_ms=self.arrived_ms,
            redelivered=self.redelivered,
            regoverned=self.regoverned,
        )


def records_of(batch: RecordBatch) -> Iterator[Record]:
    columns = (
        batch.values,
        batch.partitions,
        batch.offsets,
        batch.arrivals_ms,
        batch.redelivered,
        batch.regoverned,
    )
    return itertools.starmap(Record, zip(*columns, strict=True))


@dataclass(slots=True)
class KilledWriter:
    """A writer of a small lake that reads a log in steps and is killed at some of them."""

    lake: Lake
    records: Sequence[Record]
    log: LogDouble
    sink: TopicSink = field(init=False)

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        self.sink = TopicSink.open(self.lake, self.log.role, self.log.identity)

    def next_batch(self, size: int) -> RecordBatch:
        batch = RecordBatch()
        ahead = (
            record
            for record in self.records
            if record.offset >= (self.sink.position(record.partition) or 0)
        )
        for record in itertools.islice(ahead, size):
            record.add_to(batch)
        return batch

    def step(self, size: int, tables: int, answers: Sequence[str]) -> None:
        """Land the next `size` records in the first `tables` tables; if not in all, die."""
        batch = self.next_batch(size)
        if not len(batch):
            return
        frame = self.sink.read(batch)
        for sink in self.sink.sinks[:tables]:
            unsure = Unsure(self.lake.catalog, answers)
            sink.table.catalog = unsure  # type: ignore[assignment]  # answers as a catalog does
            try:
                self.sink._write(sink, frame, batch.end)
            except CatalogError:
                self.restart()
                return
        if tables < len(self.sink.sinks):
            self.restart()

    def run(self, steps: Sequence[tuple[int, int, Sequence[str]]]) -> None:
        """Land the log: some steps, and then the rest without a kill."""
        for step in steps:
            self.step(*step)
        self.finish()

    def finish(self) -> None:
        self.restart()
        while len(batch := self.next_batch(5)):
            self.sink.write(batch)


class Unsure:
    """A catalog whose answers get lost before or after the commit."""

    def __init__(self, inner: Any, answers: Sequence[str]) -> None:
        self._inner, self._answers = inner, list(answers)

    def commit_table(self, *arguments: Any) -> Any:
        kind = self._answers.pop(0) if self._answers else "ok"
        if kind == "lost before":
            raise TimeoutError("no answer")
        answer = self._inner.commit_table(*arguments)
        if kind == "lost after":
            raise TimeoutError("no answer")
        return answer

    def load_table(self, identifier: Any) -> Any:
        table = self._inner.load_table(identifier)
        table.catalog = self
        return table

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)
