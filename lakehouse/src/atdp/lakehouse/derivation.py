"""How table definitions follow from the Avro contracts.

`events` and `audit` are the columns of their Avro records one to one; `quarantine_index` is the
quarantine record without its payload; `generations` and `rewards` are the flat shapes of
`projections`. Every table carries where in the log its row came from. Governed tables carry
`allowed_purposes` besides: the purposes of the row, sorted and joined by dots, a partition key, so
that *which files are listed* decides what a purpose can reach.

The result is committed as `definitions/*.json`: field ids in them are what other engines see, so a
change is reviewed as a diff. Run `python -m atdp.lakehouse.derivation` to write them anew; a test
compares them with the frozen copies of every release and refuses a change that breaks readers.

Nested fields are all optional, since Avro's required field inside an absent record is absent too;
at the top level what Avro requires is required.
"""

import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
)

from atdp.schemas import newest

_ids = itertools.count(1)  # replaced by assign_fresh_schema_ids

_PRIMITIVES: Mapping[str, IcebergType] = {
    "string": StringType(),
    "int": IntegerType(),
    "long": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "boolean": BooleanType(),
    "bytes": BinaryType(),
    "timestamp": TimestamptzType(),
}


def iceberg_type(avro: Any, named: dict[str, Any]) -> IcebergType:
    """The Iceberg type of an Avro type; `named` collects the records and enums seen so far.

    Raises:
        ValueError: a union of several types, which has no column form.
    """
    if isinstance(avro, list):
        branches = [branch for branch in avro if branch != "null"]
        if len(branches) != 1:
            raise ValueError(f"a union of {branches} has no column form")
        return iceberg_type(branches[0], named)
    if isinstance(avro, str):
        return iceberg_type(named[avro], named) if avro in named else _PRIMITIVES[avro]
    kind = avro["type"]
    if "name" in avro:
        named[avro["name"]] = avro
    if kind == "record":
        return StructType(
            *(_field(field["name"], iceberg_type(field["type"], named)) for field in avro["fields"])
        )
    if kind == "array":
        return ListType(next(_ids), iceberg_type(avro["items"], named), element_required=False)
    if kind == "enum":
        return StringType()
    if avro.get("logicalType") == "timestamp-micros":
        return TimestamptzType()
    return iceberg_type(kind, named)


def _field(
    name: str, kind: IcebergType, *, required: bool = False, doc: str | None = None
) -> NestedField:
    return NestedField(next(_ids), name, kind, required=required, doc=doc)


def _record_fields(schema_name: Any, without: Iterable[str] = ()) -> list[NestedField]:
    named: dict[str, Any] = {}
    fields = []
    for field in newest(schema_name).definition["fields"]:
        kind = iceberg_type(field["type"], named)
        if field["name"] not in without:
            required = not isinstance(field["type"], list)
            fields.append(_field(field["name"], kind, required=required, doc=field.get("doc")))
    return fields


def _flat(columns: str, doc: Mapping[str, str]) -> list[NestedField]:
    """Fields from lines of `name type`; `!` after the type means required, `[]` means list."""
    fields = []
    for line in columns.strip().splitlines():
        name, text = line.split()
        required, text = text.endswith("!"), text.rstrip("!")
        kind = (
            ListType(next(_ids), _PRIMITIVES[text[:-2]], element_required=False)
            if text.endswith("[]")
            else _PRIMITIVES[text]
        )
        fields.append(_field(name, kind, required=required, doc=doc.get(name)))
    return fields


_ORIGIN = """
kafka_partition int!
kafka_offset long!
ingested_at timestamp!
"""

_MARK = """
redelivered boolean
"""

_STAMP = """
policy_id string
policy_version int
policy_hash string
consent string
allowed_purposes string!
"""

_DOCS = {
    "kafka_partition": "Partition of the log that the row came from.",
    "kafka_offset": "Offset there.",
    "ingested_at": "When the lake writer wrote it, UTC.",
    "redelivered": "Its producer may have sent it before; the event is in the table once all the same.",
    "allowed_purposes": "Purposes the row may be used for, sorted, joined by dots; empty: none. A partition key.",
    "loss_mask": "1 = trains, 0 = does not, per output token.",
    "weight_version": "Weights that served: of the event, else of the first output token.",
}

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


def _spans() -> NestedField:
    span = StructType(
        _field("version", StringType()),
        _field("start", IntegerType()),
        _field("end", IntegerType()),
    )
    return _field("policy_versions", ListType(next(_ids), span, element_required=False))


def _definition(
    name: str,
    fields: Sequence[NestedField],
    *,
    source: str,
    doc: str,
    sort: Sequence[str],
    governed: bool,
    plain: Sequence[str] = (),
) -> dict[str, Any]:
    schema = assign_fresh_schema_ids(Schema(*fields))
    partition = ["tenant_id", "allowed_purposes"] if governed else ["tenant_id"]
    return {
        "name": name,
        "doc": doc,
        "source": source,
        "governed": governed,
        "partition": [
            *({"column": column, "transform": "identity"} for column in partition),
            {"column": "occurred_at", "transform": "day"},
        ],
        "sort": list(sort),
        "plain_encoding": list(plain),
        "schema": json.loads(schema.model_dump_json()),
    }


def derive() -> dict[str, dict[str, Any]]:
    """Every table definition by name, as the JSON that is committed."""
    origin = [*_flat(_ORIGIN, _DOCS)]
    marked = [*origin, *_flat(_MARK, _DOCS)]
    purposes = _flat("allowed_purposes string!", _DOCS)
    tables = [
        _definition(
            "events",
            [*_record_fields("event"), *purposes, *marked],
            source="events_governed",
            doc="Every governed event, append-only: the truth of the lake. One struct per kind, of which one is set.",
            sort=["trajectory_id", "attempt", "seq"],
            governed=True,
            plain=[f"action.generation.{name}.list.element" for name in _TOKEN_ARRAYS],
        ),
        _definition(
            "generations",
            [
                *_flat(_GENERATION_HEAD, _DOCS),
                _spans(),
                *_flat(_GENERATION_TAIL, _DOCS),
                *_flat(_STAMP, _DOCS),
                *marked,
            ],
            source="events_governed",
            doc="One row per model call, with token arrays; what trainer and replay read.",
            sort=["trajectory_id", "attempt", "seq"],
            governed=True,
            plain=[f"{name}.list.element" for name in _TOKEN_ARRAYS],
        ),
        _definition(
            "rewards",
            [*_flat(_REWARDS, _DOCS), *_flat(_STAMP, _DOCS), *marked],
            source="events_governed",
            doc="Every reward ever observed; readers choose by rule, history stays.",
            sort=["trajectory_id", "attempt", "seq"],
            governed=True,
        ),
        _definition(
            "audit",
            [*_record_fields("audit"), *origin],
            source="audit",
            doc="One decision of the governance gate per row; never a value. A redelivered event is decided again.",
            sort=["source_partition", "source_offset"],
            governed=False,
        ),
        _definition(
            "quarantine_index",
            [*_record_fields("quarantine", without={"payload_encrypted"}), *origin],
            source="events_quarantine",
            doc="What the gate refused and where it lies; no payload.",
            sort=["source_partition", "source_offset"],
            governed=False,
        ),
    ]
    return {table["name"]: table for table in tables}


_TOKEN_ARRAYS = ("prompt_token_ids", "output_token_ids", "output_logprobs")


def main() -> None:
    """Write `definitions/*.json`."""
    folder = Path(__file__).parent / "definitions"
    for name, table in derive().items():
        text = json.dumps(table, indent=1, ensure_ascii=False) + "\n"
        (folder / f"{name}.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
