"""Derivation of the table definitions from the Avro contracts.

`events`, `audit`, `evaluations` and `control_events` have the columns of their Avro records;
`quarantine_index` has those of the quarantine record without its payload; `generations` and
`rewards` have the flat columns that `projections` fills. Every table has the position in the log
that its row came from. Governed tables also have `allowed_purposes`: the purposes of the row,
sorted and joined by dots. It is a partition key, so that *which files are listed* decides what a
purpose can reach. The last partition key of every table is the day of `arrived_at`, which is known
for every record and the same each time a table is built from the log; `occurred_at` may be
unknown.

The result is committed as `definitions/*.json`. Other engines see the field ids in these files, so
a change is reviewed as a diff. Run `python -m atdp.lakehouse.derivation` to write the files again.
A test compares them with the frozen copies of every release and fails on a change that breaks
readers.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, NestedField, StringType, StructType

from atdp.lakehouse.flat_columns import (
    DELIVERY,
    GENERATION_HEAD,
    GENERATION_TAIL,
    ORIGIN,
    PURPOSES,
    REWARDS,
    SIGNER,
    STAMP,
    flat_columns,
)
from atdp.lakehouse.iceberg_types import column, contract_columns, list_of
from atdp.lakehouse.later_fields import numbered
from atdp.schemas import TopicRole

_TOKEN_ARRAYS = ("prompt_token_ids", "output_token_ids", "output_logprobs")
_TRAJECTORY_ORDER = ("trajectory_id", "attempt", "seq")
_SIGNER = ("principal", "principal_role", "self_reward")
_SOURCE_ORDER = ("source_partition", "source_offset")


@dataclass(frozen=True, kw_only=True, slots=True)
class _DerivedTable:
    name: str
    columns: Sequence[NestedField]
    source: TopicRole
    doc: str
    sort: Sequence[str]
    governed: bool
    plain_encoding: Sequence[str] = ()
    later: Sequence[str] = ()
    """Paths of fields that were added after the first release, oldest first (`later_fields`)."""

    def to_json(self) -> dict[str, Any]:
        """Return the definition as it is committed, with final field ids."""
        schema = numbered(Schema(*self.columns), self.later)
        partition = ["tenant_id", "allowed_purposes"] if self.governed else ["tenant_id"]
        return {
            "name": self.name,
            "doc": self.doc,
            "source": self.source,
            "governed": self.governed,
            "partition": [
                *({"column": name, "transform": "identity"} for name in partition),
                {"column": "arrived_at", "transform": "day"},
            ],
            "sort": list(self.sort),
            "plain_encoding": list(self.plain_encoding),
            "later": list(self.later),
            "schema": json.loads(schema.model_dump_json()),
        }


def derive() -> dict[str, dict[str, Any]]:
    """Return every table definition by name, as the JSON that is committed."""
    tables = (
        _events(),
        _generations(),
        _rewards(),
        _audit(),
        _quarantine_index(),
        _evaluations(),
        _control_events(),
    )
    return {table.name: table.to_json() for table in tables}


def _events() -> _DerivedTable:
    return _DerivedTable(
        name="events",
        columns=[*contract_columns("event"), *flat_columns(PURPOSES, ORIGIN, DELIVERY)],
        source="events_governed",
        doc=(
            "Every governed event once, in its newest form: the truth of the lake. "
            "One struct per kind, of which one is set."
        ),
        sort=_TRAJECTORY_ORDER,
        governed=True,
        plain_encoding=[f"action.generation.{name}.list.element" for name in _TOKEN_ARRAYS],
        later=["governance.engine", *(f"governance.{name}" for name in _SIGNER)],
    )


def _generations() -> _DerivedTable:
    span = StructType(
        column("version", StringType()),
        column("start", IntegerType()),
        column("end", IntegerType()),
    )
    return _DerivedTable(
        name="generations",
        columns=[
            *flat_columns(GENERATION_HEAD),
            column("policy_versions", list_of(span)),
            *flat_columns(GENERATION_TAIL, STAMP, ORIGIN, DELIVERY),
        ],
        source="events_governed",
        doc="One row per model call, with token arrays; what trainer and replay read.",
        sort=_TRAJECTORY_ORDER,
        governed=True,
        plain_encoding=[f"{name}.list.element" for name in _TOKEN_ARRAYS],
    )


def _rewards() -> _DerivedTable:
    return _DerivedTable(
        name="rewards",
        columns=flat_columns(REWARDS, STAMP, ORIGIN, DELIVERY, SIGNER),
        source="events_governed",
        doc="Every reward ever observed; readers choose by rule, history stays.",
        sort=_TRAJECTORY_ORDER,
        governed=True,
        later=_SIGNER,
    )


def _audit() -> _DerivedTable:
    return _DerivedTable(
        name="audit",
        columns=[*contract_columns("audit"), *flat_columns(ORIGIN)],
        later=["order_id", "ordered_by"],
        source="audit",
        doc=(
            "One decision of the governance gate per row; never a value. "
            "A redelivered event is decided again."
        ),
        sort=_SOURCE_ORDER,
        governed=False,
    )


def _quarantine_index() -> _DerivedTable:
    return _DerivedTable(
        name="quarantine_index",
        columns=[
            *contract_columns("quarantine", without={"payload_encrypted", "envelope_encrypted"}),
            *flat_columns(ORIGIN),
        ],
        source="events_quarantine",
        doc="What the gate refused and where it lies; no payload.",
        sort=_SOURCE_ORDER,
        governed=False,
    )


def _evaluations() -> _DerivedTable:
    return _DerivedTable(
        name="evaluations",
        columns=[*contract_columns("evaluation"), *flat_columns(ORIGIN)],
        source="evaluations",
        doc="Every published evaluation once, with its verdict, its numbers and its report.",
        sort=("schedule", "logical_time", "occurred_at"),
        governed=False,
    )


def _control_events() -> _DerivedTable:
    return _DerivedTable(
        name="control_events",
        columns=[*contract_columns("control_event"), *flat_columns(ORIGIN)],
        source="control",
        doc="Every decision of the evolution control plane once, from its event store.",
        sort=("aggregate_id", "aggregate_version"),
        governed=False,
    )


def main() -> None:
    """Write `definitions/*.json`."""
    folder = Path(__file__).parent / "definitions"
    for name, table in derive().items():
        text = json.dumps(table, indent=1, ensure_ascii=False) + "\n"
        (folder / f"{name}.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
