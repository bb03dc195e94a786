"""Records taken from the log and not yet in the lake: one batch per topic, as columns rather than objects."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import polars as pl

REDELIVERED = "__redelivered"
"""Column that marks rows whose producer may have sent them before, as the record's header says."""


@dataclass
class RecordBatch:
    """Values of one topic in log order (per partition), and what they move.

    `start` is where each partition stood before the batch, `end` where it stands after (exclusive).
    Control records of transactions leave gaps in offsets, so `end - start` is no count.
    """

    values: list[bytes] = field(default_factory=list)
    partitions: list[int] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    redelivered: list[bool] = field(default_factory=list)
    end: dict[int, int] = field(default_factory=dict)
    size: int = 0
    """Bytes of all values."""

    def add(self, value: bytes, partition: int, offset: int, *, redelivered: bool) -> None:
        """Take one record."""
        self.values.append(value)
        self.partitions.append(partition)
        self.offsets.append(offset)
        self.redelivered.append(redelivered)
        self.end[partition] = offset + 1
        self.size += len(value)

    def reached(self, partition: int, offset: int) -> None:
        """Everything before `offset` has been seen (end of partition, past control records); at 0 nothing was."""
        if offset > 0:
            self.end[partition] = max(offset, self.end.get(partition, 0))

    def __len__(self) -> int:
        return len(self.values)

    def origin(self) -> pl.DataFrame:
        """Columns that say where each value came from."""
        return pl.DataFrame(
            {
                "kafka_partition": pl.Series(self.partitions, dtype=pl.Int32),
                "kafka_offset": pl.Series(self.offsets, dtype=pl.Int64),
                REDELIVERED: pl.Series(self.redelivered, dtype=pl.Boolean),
            }
        )


def beyond(frame: pl.DataFrame, positions: Mapping[int, int | None]) -> pl.DataFrame:
    """Rows that a table standing at `positions` does not have yet."""
    known = {partition: offset for partition, offset in positions.items() if offset is not None}
    if not known or frame.is_empty():
        return frame
    floor = pl.col("kafka_partition").replace_strict(known, default=0, return_dtype=pl.Int64)
    return frame.filter(pl.col("kafka_offset") >= floor)
