"""Batches of records that were read from the log and are not in the lake yet.

There is one batch per topic. It holds columns, not one object per record.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import polars as pl

REDELIVERED = "__redelivered"
"""Column that marks rows whose producer may have sent them before, as the record's header says."""

REGOVERNED = "__regoverned"
"""Column that marks rows of records that governance wrote in place of an earlier one of the same
event, as the record's header says."""

ARRIVED = "arrived_at"
"""Column of the time at which a record arrived in the log."""

_ARRIVAL_TYPE = pl.Datetime("ms", "UTC")


@dataclass(slots=True)
class RecordBatch:
    """Values of one topic in the order of the log (per partition).

    `end` holds where each partition stands after the batch (exclusive). Control records of
    transactions leave gaps in the offsets, so a difference of offsets is no number of records.
    """

    values: list[bytes] = field(default_factory=list)
    partitions: list[int] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    arrivals_ms: list[int] = field(default_factory=list)
    """Timestamp of each record in the log, in milliseconds since 1970."""
    redelivered: list[bool] = field(default_factory=list)
    regoverned: list[bool] = field(default_factory=list)
    end: dict[int, int] = field(default_factory=dict)
    size: int = 0
    """Bytes of all values."""

    def add(
        self,
        value: bytes,
        partition: int,
        offset: int,
        *,
        arrived_ms: int,
        redelivered: bool,
        regoverned: bool = False,
    ) -> None:
        """Append one record."""
        self.values.append(value)
        self.partitions.append(partition)
        self.offsets.append(offset)
        self.arrivals_ms.append(arrived_ms)
        self.redelivered.append(redelivered)
        self.regoverned.append(regoverned)
        self.end[partition] = offset + 1
        self.size += len(value)

    def reached(self, partition: int, offset: int) -> None:
        """Note that everything before `offset` has been read.

        That is the end of the partition, behind its control records. An empty partition, which ends
        at 0, is not noted.
        """
        if offset > 0:
            self.end[partition] = max(offset, self.end.get(partition, 0))

    def __len__(self) -> int:
        return len(self.values)

    def origin(self) -> pl.DataFrame:
        """Return the columns that tell where in the log each value came from."""
        return pl.DataFrame(
            {
                "kafka_partition": pl.Series(self.partitions, dtype=pl.Int32),
                "kafka_offset": pl.Series(self.offsets, dtype=pl.Int64),
                ARRIVED: pl.Series(self.arrivals_ms, dtype=pl.Int64).cast(_ARRIVAL_TYPE),
                REDELIVERED: pl.Series(self.redelivered, dtype=pl.Boolean),
                REGOVERNED: pl.Series(self.regoverned, dtype=pl.Boolean),
            }
        )


def rows_beyond(frame: pl.DataFrame, positions: Mapping[int, int | None]) -> pl.DataFrame:
    """Return the rows that a table standing at `positions` does not have yet."""
    known = {partition: offset for partition, offset in positions.items() if offset is not None}
    if not known or frame.is_empty():
        return frame
    floor = pl.col("kafka_partition").replace_strict(known, default=0, return_dtype=pl.Int64)
    return frame.filter(pl.col("kafka_offset") >= floor)
