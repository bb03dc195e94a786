"""Projections: column expressions that make the rows of each table from decoded records.

They are pure functions from frame to frame. `generations` and `rewards` are made from the same
batch as `events`, so each can be rebuilt from the log, or from `events`, at any time. The purposes
that a row allows follow from the stamp of governance alone: a row without one (no policy id) allows
none.
"""

from collections.abc import Callable, Mapping
from datetime import datetime

import polars as pl

from atdp.lakehouse.record_batch import ARRIVED, REDELIVERED
from atdp.lakehouse.repeats import CONFLICT, REPEAT
from atdp.lakehouse.tables import (
    PURPOSE_SEPARATOR,
    REGOVERNED_OFFSET,
    STORED_MARK,
    TableName,
)

_PURPOSE_NAME = r"^[a-z0-9_]+$"
"""A name that matches cannot be read as two names."""

_ENVELOPE = (
    "tenant_id",
    "trajectory_id",
    "attempt",
    "task_id",
    "group_id",
    "session_id",
    "event_id",
    "seq",
    "occurred_at",
)
_GENERATION = (
    "response_id",
    "choice_index",
    "prompt_token_ids",
    "prompt_prefix_event_id",
    "prompt_prefix_tokens",
    "output_token_ids",
    "output_logprobs",
    "logprob_encoding",
    "loss_mask",
    "tokenizer_hash",
    "template_hash",
    "finish_reason",
    "reasoning_effort",
    "time_to_first_token_us",
)
_REWARD = (
    "target_kind",
    "target_event_id",
    "target_step",
    "token_start",
    "token_end",
    "compared_to",
    "value",
    "label",
    "scale",
    "range_min",
    "range_max",
    "critique",
    "dimension",
    "source_name",
    "evaluator_version",
    "rule",
    "evidence",
    "confidence",
    "observed_at",
    "observed_at_nanos",
    "supersedes",
)
_STAMP = (
    "policy_id",
    "policy_version",
    "policy_hash",
    "consent",
    "training_eligible",
    "eligibility_reason",
)
_SIGNER = ("principal", "principal_role", "self_reward")
_STORED = pl.col(REDELIVERED).alias(STORED_MARK)
_ORIGIN = (
    "kafka_partition",
    "kafka_offset",
    ARRIVED,
    REGOVERNED_OFFSET,
    _STORED,
    REPEAT,
    CONFLICT,
)


def rows_of(
    name: TableName, frame: pl.DataFrame, schema: Mapping[str, pl.DataType], ingested_at: datetime
) -> pl.DataFrame:
    """Return the rows of one table, with its columns and types, made at `ingested_at` (UTC).

    The columns `REPEAT` and `CONFLICT` stay.
    """
    rows = _PROJECTIONS[name](frame).with_columns(pl.lit(ingested_at).alias("ingested_at"))
    columns = (pl.col(column).cast(kind) for column, kind in schema.items())
    return rows.select(*columns, REPEAT, CONFLICT)


def _allowed_purposes() -> pl.Expr:
    """Return the purposes of a governed record, sorted and joined by a dot.

    They are empty when governance did not stamp the record.
    """
    governance = pl.col("governance")
    purposes = governance.struct.field("purposes")
    named = purposes.list.eval(pl.element().filter(pl.element().str.contains(_PURPOSE_NAME)))
    joined = named.list.unique().list.sort().list.join(PURPOSE_SEPARATOR)
    stamped = governance.struct.field("policy_id").is_not_null()
    return (
        pl.when(stamped).then(joined).otherwise(pl.lit("")).fill_null("").alias("allowed_purposes")
    )


def _stamp() -> list[pl.Expr]:
    """Return the columns of governance's stamp."""
    governance = pl.col("governance")
    return [_allowed_purposes(), *(governance.struct.field(name) for name in _STAMP)]


def _events(frame: pl.DataFrame) -> pl.DataFrame:
    """Return every record, unchanged."""
    return frame.with_columns(_allowed_purposes(), _STORED)


def _generations(frame: pl.DataFrame) -> pl.DataFrame:
    """Return one row per model call."""
    generation = pl.col("action").struct.field("generation")
    sampling = generation.struct.field("sampling")
    spans = generation.struct.field("policy_versions")
    first_span = spans.list.get(0, null_on_oob=True).struct.field("version")
    return frame.filter(
        (pl.col("kind") == "action") & (pl.col("action").struct.field("type") == "generation")
    ).select(
        *_ENVELOPE,
        "step",
        pl.coalesce(
            generation.struct.field("model"), generation.struct.field("served_model")
        ).alias("model"),
        pl.coalesce(pl.col("versions").struct.field("weights"), first_span).alias("weight_version"),
        spans.alias("policy_versions"),
        *(generation.struct.field(name) for name in _GENERATION),
        *(sampling.struct.field(name) for name in ("temperature", "top_p", "top_k", "min_p")),
        *_stamp(),
        *(pl.col("usage").struct.field(name) for name in ("input_tokens", "output_tokens")),
        "latency_us",
        pl.col("governance").struct.field("token_fidelity"),
        *_ORIGIN,
    )


def _rewards(frame: pl.DataFrame) -> pl.DataFrame:
    """Return one row per reward event; the events that it refers to are not touched."""
    reward = pl.col("reward")
    return frame.filter((pl.col("kind") == "reward") & reward.is_not_null()).select(
        *_ENVELOPE,
        *(reward.struct.field(name) for name in _REWARD),
        *_stamp(),
        *(pl.col("governance").struct.field(name) for name in _SIGNER),
        *_ORIGIN,
    )


def _unchanged(frame: pl.DataFrame) -> pl.DataFrame:
    """Return every record as it is: what is decided, refused or evaluated is one row each."""
    return frame


_PROJECTIONS: Mapping[TableName, Callable[[pl.DataFrame], pl.DataFrame]] = {
    "events": _events,
    "generations": _generations,
    "rewards": _rewards,
    "audit": _unchanged,
    "quarantine_index": _unchanged,
    "evaluations": _unchanged,
    "control_events": _unchanged,
}
