"""Redelivery: of two copies of an event, of which at least one is flagged as sent again, one lands.

A producer that does not know whether an event arrived sends it again, flagged. An event keeps its
key, so both copies come through the same Kafka partition. That partition has one accepted writer:
the one that looks for copies now. What its look-up cannot see, the compare-and-swap of positions
refuses. There are three orders:

1. The flagged copy comes later. Flagged rows are looked up in the table, by one column of the files
   of the same tenant and day.
2. The flagged copy comes first, and the other one was only late: a gateway had accepted it and not
   yet sent it when its client gave up. The table tells which rows came flagged (`redelivered`), and
   `SentBefore` holds a hash of the id of each one of the last `REMEMBERED_S`. A row whose hash is
   among them is looked up as if it were flagged itself.
3. Both are in one batch. The first one stays.

The hashes cost 8 bytes per flagged event and a binary search per row. Only a hit costs a look-up,
and the look-up alone decides, so two ids with the same hash do no harm. The hashes are read again
from the table on every reload, from those files only whose bounds show that there may be such a
row. An event id belongs to its tenant, so ids are compared together with it.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Self

import polars as pl
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyiceberg.conversions import from_bytes
from pyiceberg.table import Table
from pyiceberg.types import PrimitiveType

from atdp.lakehouse.manifests import ListedFile, files_of
from atdp.lakehouse.record_batch import REDELIVERED
from atdp.lakehouse.storage import filesystem_of, path_in_filesystem
from atdp.lakehouse.tables import STORED_MARK, TableName

ONCE_PER_EVENT: Collection[TableName] = ("events", "generations", "rewards", "quarantine_index")
"""Tables that hold an event once. `audit` holds decisions: an event that was sent again was decided
again, perhaps with another result."""

REMEMBERED_S = 24 * 3600.0
"""Time after a flagged copy in which the other one is still recognised. It is longer than any
request can be under way, also through a process that was frozen. An import flags all its events, so
a day with a million imported events costs 8 MB of hashes."""

_KEY = ["tenant_id", "event_id"]
_ROW = "__row"
_EPOCH = pl.date(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class SentBefore:
    """The set of events that landed with the flag lately, as hashes.

    It may contain an event that did not land so, because of an equal hash; it lacks none that did.
    """

    hashes: pl.Series = field(default_factory=lambda: pl.Series(dtype=pl.UInt64))
    """Sorted, each once."""

    @classmethod
    def of(cls, table: Table, now: datetime) -> Self:
        """Return the flagged events of a table, of rows written in the last `REMEMBERED_S`."""
        head = table.metadata.current_snapshot()
        since = now - timedelta(seconds=REMEMBERED_S)
        files = [] if head is None else files_of(table, head.snapshot_id)
        flagged = [file for file in files if _may_hold_flagged_rows(file, table, since)]
        if not flagged:
            return cls()
        return cls().with_rows(
            _read(
                table,
                flagged,
                pc.field(STORED_MARK) & (pc.field("ingested_at") >= pc.scalar(since)),
            )
        )

    def with_rows(self, flagged: pl.DataFrame) -> Self:
        """Return the set with these rows added."""
        if flagged.is_empty():
            return self
        return type(self)(pl.concat([self.hashes, _hashes(flagged)]).unique().sort())

    def suspects(self, rows: pl.DataFrame) -> pl.Series:
        """Return for each row whether its event may be in the set."""
        if self.hashes.is_empty():
            return pl.repeat(value=False, n=rows.height, eager=True)
        wanted = _hashes(rows)
        places = self.hashes.search_sorted(wanted).clip(upper_bound=len(self.hashes) - 1)
        return self.hashes.gather(places) == wanted


def without_repeats(rows: pl.DataFrame, table: Table, sent_before: SentBefore) -> pl.DataFrame:
    """Return the rows that the table does not have, without second copies inside the batch.

    Rows with no `event_id` (unreadable records in quarantine) are all kept. The first copy in log
    order stays.
    """
    asked = (rows[REDELIVERED] | sent_before.suspects(rows)) & rows["event_id"].is_not_null()
    if not asked.any():
        return rows
    numbered = rows.with_row_index(_ROW)
    suspects = numbered.filter(asked)
    copies = numbered.join(
        suspects.select(_KEY).unique(), on=_KEY, how="semi", maintain_order="left"
    )
    second = copies.filter(~pl.struct(_KEY).is_first_distinct())[_ROW]
    landed = suspects.join(_known(suspects, table), on=_KEY, how="semi")[_ROW]
    return numbered.filter(~pl.col(_ROW).is_in(pl.concat([second, landed]).implode())).drop(_ROW)


def _known(suspects: pl.DataFrame, table: Table) -> pl.DataFrame:
    """Return tenant and id of the suspected events that the table has, and perhaps of others."""
    head = table.metadata.current_snapshot()
    days = (pl.col("occurred_at").dt.date() - _EPOCH).dt.total_days()
    wanted = set(suspects.select("tenant_id", days.alias("day")).unique().iter_rows())
    files = [] if head is None else files_of(table, head.snapshot_id)
    ids = suspects["event_id"].unique().to_arrow()
    return _read(
        table,
        [file for file in files if _tenant_and_day(file) in wanted],
        pc.field("event_id").isin(ids),
    )


def _read(table: Table, files: Collection[ListedFile], wanted: pc.Expression) -> pl.DataFrame:
    if not files:
        return pl.DataFrame(schema=dict.fromkeys(_KEY, pl.String))
    paths = [path_in_filesystem(file.path) for file in files]
    source = ds.dataset(paths, filesystem=filesystem_of(table), format="parquet")
    return pl.DataFrame(source.to_table(columns=_KEY, filter=wanted))


def _hashes(rows: pl.DataFrame) -> pl.Series:
    return rows.select(pl.struct(_KEY).hash()).to_series()


def _tenant_and_day(file: ListedFile) -> tuple[object, object]:
    return file.partition[0], file.partition[-1]


def _may_hold_flagged_rows(file: ListedFile, table: Table, since: datetime) -> bool:
    """Return whether the bounds of a file admit flagged rows since a time.

    A file without these bounds is older than the column.
    """
    if _bound(file, table, STORED_MARK) is not True:
        return False
    newest_us = _bound(file, table, "ingested_at")
    return newest_us is not None and newest_us >= since.timestamp() * 1e6


def _bound(file: ListedFile, table: Table, column: str) -> Any:
    """Return the largest value of a column in a file; None where the file has no bound for it."""
    field_ = table.schema().find_field(column)
    bound = file.upper_bounds.get(field_.field_id)
    assert isinstance(field_.field_type, PrimitiveType)
    return None if bound is None else from_bytes(field_.field_type, bound)
