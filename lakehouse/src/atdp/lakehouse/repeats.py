"""Repeats: the records of a batch that make no row, and the rows that records replace.

`event_id` is the idempotency key of an event within its tenant. Whoever sends an event again, with
or without a header, in the same batch or a year later, sends a copy, which does not land; and what
governance governs again takes the place of the form that landed. `event_forms` has the rules. What
decides is the place in the log, so the decision is a function of the log and of one table, and
every table that the topic feeds takes it over: `generations` and `rewards` leave out exactly the
records that `events` leaves out, and replace exactly the rows that it replaces. A record that is
read again for a table that lags behind is at its own place and no repeat.

An event keeps its key, so its copies come through one Kafka partition, which has one accepted
writer: the one that decides now. What its look-up cannot see, the compare-and-swap of positions
refuses. An id can be in two partitions if its tenant uses it in two trajectories, which is an error
of the producer, or if partitions were added in between. Then two writers may decide at the same
time, and the ids that another one has committed meanwhile are looked up again at the commit
(`LandedIds.require_new`). A record never replaces a row of another partition.

A repeat whose content differs from the form that counts is marked as conflicting, so that it can be
counted. The stamp of the gate is no content: a copy is governed anew.
"""

from collections.abc import Iterator, Mapping, Sequence

import polars as pl
from pyiceberg.table import Table

from atdp.lakehouse.event_forms import IN_TABLE, EventForm, FormDecision, decide
from atdp.lakehouse.landed_ids import CONTENT, FORM, KEY, PLACE, LandedIds
from atdp.lakehouse.record_batch import ARRIVED, REGOVERNED
from atdp.lakehouse.tables import REGOVERNED_OFFSET, TableName
from atdp.schemas import newest

DECIDING_TABLE: Sequence[TableName] = (
    "events",
    "audit",
    "quarantine_index",
    "evaluations",
    "control_events",
)
"""Tables that hold a record once and by which the others of their topic go. `audit` holds each
decision once: an event that was sent again was decided again, perhaps with another result.
Evaluations and decisions of the control plane are published at least once, under the same ids."""

REPEAT = "__repeat"
"""Column that marks a row that does not land, since another form of its event does."""
CONFLICT = "__conflict"
"""Column that marks a repeat with other content than the form that lands."""
FIRST_OFFSET = "__first_offset"
"""Column with the offset of the first record of a row's event, where the row's record takes the
place of an earlier one; NULL: the record is the first one."""
FIRST_ARRIVED = "__first_arrived"
"""Column with the time at which that first record arrived."""

_ROW = "__row"
_ARRIVAL_TYPE = pl.Datetime("ms", "UTC")


def content_columns(table: TableName) -> Sequence[str]:
    """Return the columns of a table by which two copies of an event are compared."""
    if table != "events":
        return ()
    return [field.name for field in newest("event").tree.fields if field.name != "governance"]


def with_repeats_marked(frame: pl.DataFrame, landed: LandedIds, table: Table) -> pl.DataFrame:
    """Return the frame with the columns `REPEAT`, `CONFLICT`, `FIRST_OFFSET`, `FIRST_ARRIVED`.

    The frame has the column `ROW_ID`.
    """
    landed.follow(table)
    named = frame.with_row_index(_ROW)
    hashes = landed.hashes(named)
    forms = landed.forms_of(named, table)
    suspects = named.filter(hashes.is_duplicated() | hashes.is_in(landed.hashes(forms).implode()))
    if suspects.is_empty():
        return marked(frame, FormDecision())
    compared = suspects.select(
        _ROW, *landed.form_columns(), landed.content_hashes(suspects).alias(CONTENT), REGOVERNED
    )
    # The partition whose record came first goes first; within one, the offset decides.
    came = pl.col(ARRIVED).min().over(*KEY, "kafka_partition")
    in_order = compared.sort(came, *PLACE)
    return marked(frame, decide(_forms(in_order), {form.key: form for form in _forms(forms)}))


def marked(frame: pl.DataFrame, decision: FormDecision) -> pl.DataFrame:
    """Return the frame with the columns of a decision."""
    row = pl.int_range(pl.len(), dtype=pl.UInt32)
    places = [*decision.replacing.values()]
    return frame.with_columns(
        row.is_in(pl.Series(decision.repeats, dtype=pl.UInt32).implode()).alias(REPEAT),
        row.is_in(pl.Series(decision.conflicts, dtype=pl.UInt32).implode()).alias(CONFLICT),
        _looked_up(row, decision, [offset for offset, _ in places], pl.Int64()).alias(FIRST_OFFSET),
        _looked_up(row, decision, [time for _, time in places], _ARRIVAL_TYPE).alias(FIRST_ARRIVED),
    )


def at_their_places(frame: pl.DataFrame) -> pl.DataFrame:
    """Return a marked frame with the places that its rows have in the tables.

    A row whose record replaces an earlier form has the place of the first one, and the offset of
    its own record as `REGOVERNED_OFFSET`.
    """
    replacing = pl.col(FIRST_OFFSET).is_not_null()
    return frame.with_columns(
        pl.coalesce(FIRST_OFFSET, "kafka_offset").alias("kafka_offset"),
        pl.coalesce(FIRST_ARRIVED, ARRIVED).alias(ARRIVED),
        pl.when(replacing).then("kafka_offset").alias(REGOVERNED_OFFSET),
    )


def _looked_up(
    row: pl.Expr, decision: FormDecision, values: Sequence[object], kind: pl.DataType
) -> pl.Expr:
    numbers = pl.Series([*decision.replacing], dtype=pl.UInt32)
    return row.replace_strict(
        numbers, pl.Series(values, dtype=kind), default=None, return_dtype=kind
    )


def _forms(frame: pl.DataFrame) -> Iterator[EventForm]:
    """Yield the forms of a frame of `FORM` columns, with those of a batch where it has them."""
    batch: Mapping[str, pl.Expr] = {
        _ROW: pl.lit(IN_TABLE),
        REGOVERNED: pl.lit(value=False),
    }
    absent = [value.alias(name) for name, value in batch.items() if name not in frame.columns]
    for row in frame.with_columns(absent).select(*FORM, CONTENT, _ROW, REGOVERNED).iter_rows():
        tenant, event, partition, offset, first, arrived, *identity, version = row[:-3]
        yield EventForm(
            key=(tenant, event),
            partition=partition,
            offset=offset,
            first_offset=first,
            first_arrived_at=arrived,
            identity=tuple(identity),
            version=version,
            content=row[-3],
            row=row[-2],
            regoverned=row[-1],
        )
