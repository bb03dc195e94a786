"""Redelivery: an event that its producer may have sent before is looked up before it is appended.

Only rows with the redelivery flag cost anything. An event keeps its key, so its first copy came through the same Kafka partition, whose
only accepted writer is the one that looks now: what the look-up cannot see, the compare-and-swap of positions refuses. The search reads
one column of the files of the same tenant and day.
"""

import polars as pl
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyiceberg.table import Table

from .manifests import ListedFile, files_of
from .records import REDELIVERED
from .storage import filesystem_of, path_in_filesystem

_EPOCH = pl.date(1970, 1, 1)


def without_repeats(rows: pl.DataFrame, table: Table) -> pl.DataFrame:
    """`rows` less those that the table has already, and less second copies inside the batch.

    Rows with no `event_id` (unreadable records in quarantine) are all kept. The first copy in log order stays.
    """
    if "event_id" not in rows.columns or not rows[REDELIVERED].any():
        return rows
    suspects = rows.filter(REDELIVERED, pl.col("event_id").is_not_null())
    if suspects.is_empty():
        return rows
    event_id = pl.col("event_id")
    second_copy = event_id.is_in(suspects["event_id"].implode()) & ~event_id.is_first_distinct()
    known = _known(suspects, table)
    repeated = pl.col(REDELIVERED) & event_id.is_in(known.implode())
    return rows.filter(~(second_copy | repeated).fill_null(value=False))


def _known(suspects: pl.DataFrame, table: Table) -> pl.Series:
    """Ids of `suspects` that the table has."""
    nothing = pl.Series("event_id", [], dtype=pl.String)
    head = table.metadata.current_snapshot()
    if head is None:
        return nothing
    days = (pl.col("occurred_at").dt.date() - _EPOCH).dt.total_days()
    wanted = set(suspects.select("tenant_id", days.alias("day")).unique().iter_rows())
    files = [file for file in files_of(table, head.snapshot_id) if _tenant_and_day(file) in wanted]
    if not files:
        return nothing
    paths = [path_in_filesystem(file.path) for file in files]
    column = ds.dataset(paths, filesystem=filesystem_of(table), format="parquet")
    ids = suspects["event_id"].unique().to_arrow()
    found = column.to_table(columns=["event_id"], filter=pc.field("event_id").isin(ids))
    return pl.Series("event_id", found.column("event_id"), dtype=pl.String)


def _tenant_and_day(file: ListedFile) -> tuple[object, object]:
    return file.partition[0], file.partition[-1]
