"""Columns of the tables that do not follow from one Avro record.

They are those of `generations` and `rewards`, which `projections` fills, and those that every row
has besides the contract's own. A block of columns is text with one `name type` per line.
"""

from collections.abc import Mapping

from pyiceberg.types import NestedField

from atdp.lakehouse.iceberg_types import PRIMITIVES, column, list_of

ORIGIN = """
kafka_partition int!
kafka_offset long!
arrived_at timestamp!
ingested_at timestamp!
"""

DELIVERY = """
redelivered boolean
regoverned_offset long
"""

PURPOSES = """
allowed_purposes string!
"""

STAMP = """
policy_id string
policy_version int
policy_hash string
consent string
allowed_purposes string!
"""

GENERATION_HEAD = """
tenant_id string!
trajectory_id string!
attempt int!
task_id string
group_id string
session_id string
event_id string!
seq long!
step int!
occurred_at timestamp
model string
weight_version string
response_id string
choice_index int
"""

GENERATION_TAIL = """
prompt_token_ids int[]
prompt_prefix_event_id string
prompt_prefix_tokens int
output_token_ids int[]
output_logprobs float[]
logprob_encoding string
loss_mask int[]
temperature double
top_p double
top_k int
min_p double
reasoning_effort string
tokenizer_hash string
template_hash string
finish_reason string
time_to_first_token_us long
token_fidelity string
training_eligible boolean
eligibility_reason string
input_tokens long
output_tokens long
latency_us long
"""

REWARDS = """
tenant_id string!
event_id string!
trajectory_id string!
attempt int!
task_id string
group_id string
session_id string
seq long!
occurred_at timestamp
target_kind string
target_event_id string
target_step int
token_start int
token_end int
compared_to string
value double
label string
scale string
range_min double
range_max double
critique string
dimension string
source_name string
evaluator_version string
rule string
evidence string[]
confidence double
observed_at timestamp
observed_at_nanos int
supersedes string
training_eligible boolean
eligibility_reason string
"""

SIGNER = """
principal string
principal_role string
self_reward string
"""

_COLUMN_DOCS: Mapping[str, str] = {
    "kafka_partition": "Partition of the log that the row came from.",
    "kafka_offset": "Offset there.",
    "arrived_at": (
        "When the record arrived in that log (Kafka's timestamp), UTC; the same each time the "
        "table is built from the log. A partition key, by day."
    ),
    "ingested_at": "When the lake writer wrote it, UTC.",
    "redelivered": (
        "Its producer said that it may have sent it before; the event is in the table once."
    ),
    "regoverned_offset": (
        "Offset of the record that the row is from, where the event was governed again; "
        "`kafka_offset` and `arrived_at` stay those of the first record. NULL: not governed again."
    ),
    "allowed_purposes": (
        "Purposes the row may be used for, sorted, joined by dots; empty: none. A partition key."
    ),
    "loss_mask": "1 = trains, 0 = does not, per output token.",
    "principal": "Principal whose key signed the record; `source_name` is a claim beside it.",
    "principal_role": "Role of that key.",
    "self_reward": (
        "What a reward counts for that a key without the permission `reward` signed: `analytics` "
        "or `train`. NULL: such a key did not sign it, or an older gate governed it."
    ),
    "weight_version": "Weights that served: of the event, else of the first output token.",
}
"""Documentation of columns as it stands in the table's metadata."""


def flat_columns(*blocks: str) -> list[NestedField]:
    """Return the columns of blocks of `name type` lines.

    `!` after the type means that the column is required, `[]` that it is a list.
    """
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
