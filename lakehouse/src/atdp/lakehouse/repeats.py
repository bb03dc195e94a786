"""Repeats: of all copies of an event, the first one lands.

`event_id` is the idempotency key of an event within its tenant. Whoever sends an event again, with
or without a header, in the same batch or a year later, sends a copy. What decides is the place in
the log: a row is a repeat when the table has its id from another place, or when an earlier record
of the same batch has it and the table does not. A record that is read again for a table that lags
behind is at its own place and no repeat. So the decision is a function of the log and of one table,
and every table that the topic feeds takes it over: `generations` and `rewards` leave out exactly
the records that `events` leaves out.

An event keeps its key, so its copies come through one Kafka partition, which has one accepted
writer: the one that decides now. What its look-up cannot see, the compare-and-swap of positions
refuses. An id can be in two partitions if its tenant uses it in two trajectories, which is an error
of the producer, or if partitions were added in between. Then two writers may decide at the same
time, and the ids that another one has committed meanwhile are looked up again at the commit
(`LandedIds.require_new`).

A repeat whose content differs from the copy that landed is marked as conflicting, so that it can be
counted. The stamp of the gate is no content: a copy is governed anew.
"""

from collections.abc import Mapping, Sequence

import polars as pl
from pyiceberg.table import Table

from atdp.lakehouse.landed_ids import CONTENT, KEY, PLACE, LandedIds
from atdp.lakehouse.record_batch import ARRIVED
from atdp.lakehouse.tables import TableName
from atdp.schemas import newest

DECIDING_TABLE: Sequence[TableName] = ("events", "quarantine_index")
"""Tables that hold an event once and by which the others of their topic go. `audit` holds
decisions: an event that was sent again was decided again, perhaps with another result."""

REPEAT = "__repeat"
"""Column that marks a row that does not land, since another copy of its event does."""
CONFLICT = "__conflict"
"""Column that marks a repeat with other content than the copy that lands."""

_ROW = "__row"
_HASH = "__hash"
_SECOND = "__second"
_LANDED: Mapping[str, str] = {name: f"{name}_landed" for name in (*PLACE, CONTENT)}


def content_columns(table: TableName) -> Sequence[str]:
    """Return the columns of a table by which two copies of an event are compared."""
    if table != "events":
        return ()
    return [field.name for field in newest("event").tree.fields if field.name != "governance"]


def with_repeats_marked(frame: pl.DataFrame, landed: LandedIds, table: Table) -> pl.DataFrame:
    """Return the frame with the columns `REPEAT` and `CONFLICT`.

    Rows without an `event_id` (unreadable records in quarantine) are no repeats.
    """
    landed.follow(table)
    named = frame.with_row_index(_ROW).filter(pl.col("event_id").is_not_null())
    named = named.with_columns(landed.hashes(named).alias(_HASH))
    copies = landed.copies_of(named, table)
    twice = named[_HASH].is_duplicated()
    known = named[_HASH].is_in(landed.hashes(copies).implode())
    suspects = named.filter(twice | known)
    if suspects.is_empty():
        return _marked(frame, [], [])
    compared = suspects.select(
        _ROW, *KEY, *PLACE, ARRIVED, landed.content_hashes(suspects).alias(CONTENT)
    )
    return _marked(frame, *_decided(compared, copies))


def _decided(rows: pl.DataFrame, copies: pl.DataFrame) -> tuple[Sequence[int], Sequence[int]]:
    """Return the numbers of the rows that are repeats, and of those that conflict."""
    both = rows.join(copies.rename(_LANDED), on=KEY, how="left", maintain_order="left")
    own = pl.all_horizontal(pl.col(name) == pl.col(_LANDED[name]) for name in PLACE)
    at_own_place = both.filter(own)[_ROW]
    others = rows.filter(~pl.col(_ROW).is_in(at_own_place.implode()))
    elsewhere = others.join(
        copies.rename(_LANDED).unique(KEY, keep="first", maintain_order=True), on=KEY, how="inner"
    )
    new = others.join(copies, on=KEY, how="anti").sort(ARRIVED, *PLACE)
    new = new.with_columns(
        pl.col(CONTENT).first().over(KEY).alias(_LANDED[CONTENT]),
        (~pl.struct(KEY).is_first_distinct()).alias(_SECOND),
    )
    repeats = pl.concat(
        [
            elsewhere.select(_ROW, CONTENT, _LANDED[CONTENT]),
            new.filter(_SECOND).select(_ROW, CONTENT, _LANDED[CONTENT]),
        ]
    )
    conflicts = repeats.filter(pl.col(CONTENT) != pl.col(_LANDED[CONTENT]))
    return repeats[_ROW].to_list(), conflicts[_ROW].to_list()


def _marked(frame: pl.DataFrame, repeats: Sequence[int], conflicts: Sequence[int]) -> pl.DataFrame:
    row = pl.int_range(pl.len(), dtype=pl.UInt32)
    return frame.with_columns(
        row.is_in(pl.Series(repeats, dtype=pl.UInt32).implode()).alias(REPEAT),
        row.is_in(pl.Series(conflicts, dtype=pl.UInt32).implode()).alias(CONFLICT),
    )
