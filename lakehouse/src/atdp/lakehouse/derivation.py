"""Derivation of the table definitions from the Avro contracts.

`events` and `audit` have the columns of their Avro records; `quarantine_index` has those of the
quarantine record without its payload; `generations` and `rewards` have the flat columns that
`projections` fills. Every table has the position in the log that its row came from. Governed tables
also have `allowed_purposes`: the purposes of the row, sorted and joined by dots. It is a partition
key, so that *which files are listed* decides what a purpose can reach.

The result is committed as `definitions/*.json`. Other engines see the field ids in these files, so
a change is reviewed as a diff. Run `python -m atdp.lakehouse.derivation` to write the files again.
A test compares them with the frozen copies of every release and fails on a change that breaks
readers.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.types import IntegerType, NestedField, StringType, StructType

from atdp.lakehouse.iceberg_types import PRIMITIVES, column, contract_columns, list_of
from atdp.schemas import TopicRole

_TOKEN_ARRAYS = ("prompt_token_ids", "output_token_ids", "output_logprobs")
_TRAJECTORY_ORDER = ("trajectory_id", "attempt", "seq")
_SOURCE_ORDER = ("source_partition", "source_offset")

_ORIGIN = """
kafka_partition int!
kafka_offset long!
ingested_at timestamp!
"""

_REDELIVERED = """
redelivered boolean
"""

_PURPOSES = """
allowed_purposes string!
"""

_STAMP = """
policy_id string
policy_version int
policy_hash string
consent string
allowed_purposes string!
"""

_GENERATION_HEAD = """
tenant_id string!
trajectory_id string!
attempt int!
task_id string
session_id string
event_id string!
seq long!
step int!
occurred_at timestamp!
model string
weight_version string
"""

_GENERATION_TAIL = """
prompt_token_ids int[]
output_token_ids int[]
output_logprobs float[]
loss_mask int[]
temperature double
top_p double
top_k int
min_p double
tokenizer_hash string
template_hash string
finish_reason string
token_fidelity string
training_eligible boolean
eligibility_reason string
input_tokens long
output_tokens long
latency_us long
"""

_REWARDS = """
tenant_id string!
event_id string!
trajectory_id string!
attempt int!
task_id string
session_id string
seq long!
occurred_at timestamp!
target_kind string
target_event_id string
target_step int
value double
critique string
dimension string
source_name string
evaluator_version string
observed_at timestamp
supersedes string
training_eligible boolean
eligibility_reason string
"""

_COLUMN_DOCS: Mapping[str, str] = {
    "kafka_partition": "Partition of the log that the row came from.",
    "kafka_offset": "Offset there.",
    "ingested_at": "When the lake writer wrote it, UTC.",
    "redelivered": (
        "Its producer may have sent it before; the event is in the table once all the same."
    ),
    "allowed_purposes": (
        "Purposes the row may be used for, sorted, joined by dots; empty: none. A partition key."
    ),
    "loss_mask": "1 = trains, 0 = does not, per output token.",
    "weight_version": "Weights that served: of the event, else of the first output token.",
}
"""Documentation of columns as it stands in the table's metadata."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _DerivedTable:
    name: str
    columns: Sequence[NestedField]
    source: TopicRole
    doc: str
    sort: Sequence[str]
    governed: bool
    plain_encoding: Sequence[str] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the definition as it is committed, with final field ids."""
        schema = assign_fresh_schema_ids(Schema(*self.columns))
        partition = ["tenant_id", "allowed_purposes"] if self.governed else ["tenant_id"]
        return {
            "name": self.name,
            "doc": self.doc,
            "source": self.source,
            "governed": self.governed,
            "partition": [
                *({"column": name, "transform": "identity"} for name in partition),
                {"column": "occurred_at", "transform": "day"},
            ],
            "sort": list(self.sort),
            "plain_encoding": list(self.plain_encoding),
            "schema": json.loads(schema.model_dump_json()),
        }


def derive() -> dict[str, dict[str, Any]]:
    """Return every table definition by name, as the JSON that is committed."""
    tables = (_events(), _generations(), _rewards(), _audit(), _quarantine_index())
    return {table.name: table.to_json() for table in tables}


def _events() -> _DerivedTable:
    return _DerivedTable(
        name="events",
        columns=[*contract_columns("event"), *_flat(_PURPOSES, _ORIGIN, _REDELIVERED)],
        source="events_governed",
        doc=(
            "Every governed event, append-only: the truth of the lake. "
            "One struct per kind, of which one is set."
        ),
        sort=_TRAJECTORY_ORDER,
        governed=True,
        plain_encoding=[f"action.generation.{name}.list.element" for name in _TOKEN_ARRAYS],
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
            *_flat(_GENERATION_HEAD),
            column("policy_versions", list_of(span)),
            *_flat(_GENERATION_TAIL, _STAMP, _ORIGIN, _REDELIVERED),
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
        columns=_flat(_REWARDS, _STAMP, _ORIGIN, _REDELIVERED),
        source="events_governed",
        doc="Every reward ever observed; readers choose by rule, history stays.",
        sort=_TRAJECTORY_ORDER,
        governed=True,
    )


def _audit() -> _DerivedTable:
    return _DerivedTable(
        name="audit",
        columns=[*contract_columns("audit"), *_flat(_ORIGIN)],
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
            *contract_columns("quarantine", without={"payload_encrypted"}),
            *_flat(_ORIGIN),
        ],
        source="events_quarantine",
        doc="What the gate refused and where it lies; no payload.",
        sort=_SOURCE_ORDER,
        governed=False,
    )


def _flat(*blocks: str) -> list[NestedField]:
    """Return columns from lines of `name type`; `!` after the type is required, `[]` is a list."""
    columns = []
    for line in "".join(blocks).split("\n"):
        if not line:
            continue
        name, kind = line.split()
        required = kind.endswith("!")
        primitive = PRIMITIVES[kind.removesuffix("!").removesuffix("[]")]
        columns.append(
            column(
                name,
                list_of(primitive) if "[]" in kind else primitive,
                required=required,
                doc=_COLUMN_DOCS.get(name),
            )
        )
    return columns


def main() -> None:
    """Write `definitions/*.json`."""
    folder = Path(__file__).parent / "definitions"
    for name, table in derive().items():
        text = json.dumps(table, indent=1, ensure_ascii=False) + "\n"
        (folder / f"{name}.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
