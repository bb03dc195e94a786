"""Rules that several records have: ids, numbers, JSON, times and targets.

The rules for finite numbers and for JSON are made from the schema, so a new field has them too.
"""

from collections.abc import Iterator, Mapping

from atdp.schemas import _rule_predicates as predicates
from atdp.schemas.contract_rule import ContractRule
from atdp.schemas.contract_tree import AvroNullable, AvroPrimitive, AvroRecord, records_of
from atdp.schemas.released import newest

_BAD_NAMES = ("a\nb", "\x00", "\x85", "\x1b]0;title\x07", "\u202eb", "\u2028")
_BAD_IDS = ("", *_BAD_NAMES, "x" * (predicates.MAX_ID_CHARACTERS + 1))
_SOME_ID = "019aa5c0-0000-7000-8000-000000000009"


def _id_rule(rule_id: str, record: str, *fields: str, required: bool = False) -> ContractRule:
    return ContractRule(
        id=rule_id,
        record=record,
        fields=fields,
        sentence=(
            "An id has 1 to 512 characters and no control characters, "
            "bidirectional controls or line separators."
        ),
        holds=predicates.are_required_ids if required else predicates.are_ids,
        good=tuple({name: "Zürich-7/ä b"} for name in fields),
        bad=tuple({name: text} for name in fields for text in _BAD_IDS),
    )


def _name_rules() -> Iterator[ContractRule]:
    """Yield the rules for names: of agents, tools, models, versions, sources."""
    for record, fields in _NAMES.items():
        yield ContractRule(
            id=f"{record}.names",
            record=record,
            fields=fields,
            sentence=(
                "A name has no control characters, bidirectional controls or line separators."
            ),
            holds=predicates.are_names,
            good=tuple({name: "Zürich-7/ä b 👩‍🚒"} for name in fields),
            bad=(
                *({fields[0]: text} for text in _BAD_NAMES),
                *({name: "\x1b[2J"} for name in fields[1:]),
            ),
        )


_NAMES: Mapping[str, tuple[str, ...]] = {
    "Agent": ("id", "version", "framework"),
    "Source": ("format", "version"),
    "Versions": (
        "harness",
        "prompt",
        "tools",
        "retrieval_index",
        "guardrail",
        "model",
        "weights",
    ),
    "Message": ("role", "name", "call_id"),
    "Part": ("name", "call_id"),
    "Generation": (
        "model",
        "served_model",
        "provider",
        "request_id",
        "response_id",
        "finish_reason",
    ),
    "VersionSpan": ("version",),
    "ToolCall": ("name", "call_id", "tool_type"),
    "Outcome": ("name", "call_id"),
    "Handoff": ("to",),
    "Approval": ("by",),
    "Guardrail": ("name",),
    "Retrieval": ("index",),
    "Embedding": ("model",),
    "Reward": ("dimension", "source_name", "evaluator_version", "rule", "scale"),
    "Feedback": ("dimension", "scale", "actor"),
    "Annotation": ("name", "annotator", "annotator_version"),
    "Gap": ("code",),
}


def _number_rules() -> Iterator[ContractRule]:
    """Yield the rules for counts and for numbers that every record of the contract may have."""
    for record in records_of(newest("event").tree):
        if doubles := _fields_of(record, "double"):
            yield ContractRule(
                id=f"{record.name}.finite",
                record=record.name,
                fields=doubles,
                sentence="A number is finite.",
                holds=predicates.all_finite,
                good=tuple({name: 0.5} for name in doubles),
                bad=tuple({name: float(odd)} for name in doubles for odd in ("nan", "inf", "-inf")),
            )
        if counts := tuple(name for name in _COUNTS.get(record.name, ())):
            yield ContractRule(
                id=f"{record.name}.not_negative",
                record=record.name,
                fields=counts,
                sentence="A count, a size, a duration or a position is 0 or more.",
                holds=predicates.not_negative,
                good=tuple({name: 0} for name in counts),
                bad=tuple({name: -1} for name in counts),
            )


_COUNTS: Mapping[str, tuple[str, ...]] = {
    "Event": ("seq", "attempt", "step", "latency_us"),
    "Usage": (
        "input_tokens",
        "output_tokens",
        "cached_input_tokens",
        "cache_write_tokens",
        "reasoning_tokens",
    ),
    "Cost": ("amount",),
    "Part": ("size_bytes",),
    "BlobRef": ("size_bytes",),
    "Observation": ("context_base",),
    "Generation": ("choice_index", "time_to_first_token_us"),
    "Sampling": ("choices",),
    "Retrieval": ("top_k",),
    "Embedding": ("input_count", "dimensions"),
    "Gap": ("from_seq", "to_seq"),
}


_TOO_DEEP = "[" * (predicates.MAX_JSON_LEVELS + 1) + "]" * (predicates.MAX_JSON_LEVELS + 1)
_BAD_JSON = ("", "{oops", "Infinity", _TOO_DEEP, '"\\ud800"')
_BAD_OBJECTS = ("{", "[]", '{"a":NaN}', f'{{"a":{_TOO_DEEP}}}', '{"\\udfff":1}')


def _json_rules() -> Iterator[ContractRule]:
    """Yield the rules for the fields whose names end with `_json`."""
    for record in records_of(newest("event").tree):
        names = [name for name in _fields_of(record, "string") if name.endswith("_json")]
        objects = tuple(name for name in names if name in {"ext_json", "metadata_json"})
        others = tuple(name for name in names if name not in objects)
        if objects:
            yield ContractRule(
                id=f"{record.name}.json_object",
                record=record.name,
                fields=objects,
                sentence=(
                    "The field holds the text of a JSON object, nested at most 200 levels deep "
                    "and without half of a surrogate pair."
                ),
                holds=predicates.are_json_objects,
                good=tuple({name: '{"ä":[1,null,"\\ud83d\\ude00"]}'} for name in objects),
                bad=tuple({name: text} for name in objects for text in _BAD_OBJECTS),
            )
        if others:
            yield ContractRule(
                id=f"{record.name}.json",
                record=record.name,
                fields=others,
                sentence=(
                    "The field holds the text of a JSON value, nested at most 200 levels deep "
                    "and without half of a surrogate pair."
                ),
                holds=predicates.are_json,
                good=tuple({name: text} for name in others for text in ("[1]", '"a"', "null")),
                bad=tuple({name: text} for name in others for text in _BAD_JSON),
            )


def _fields_of(record: AvroRecord, primitive: str) -> tuple[str, ...]:
    found = []
    for field in record.fields:
        kind = field.type.item if isinstance(field.type, AvroNullable) else field.type
        if isinstance(kind, AvroPrimitive) and kind.name == primitive:
            found.append(field.name)
    return tuple(found)


_BAD_TIMES = ("0001-01-01T00:00:00+00:00", "1999-12-31T23:59:59Z", "9999-12-31T23:59:59Z")


def _time_rule(record: str, *fields: str) -> ContractRule:
    return ContractRule(
        id=f"{record}.time",
        record=record,
        fields=fields,
        sentence="A time is not before the year 2000 and at most one day in the future.",
        holds=predicates.within,
        latest=True,
        good=tuple({name: "2001-02-03T04:05:06Z"} for name in fields),
        bad=tuple({name: text} for name in fields for text in _BAD_TIMES),
    )


def _nanos_rule(record: str, *fields: str) -> ContractRule:
    return ContractRule(
        id=f"{record}.nanos",
        record=record,
        fields=tuple(name for field in fields for name in (field, f"{field}_nanos")),
        sentence="Nanoseconds are 0 to 999, and only beside a time.",
        holds=predicates.nanos_beside_times,
        good=tuple({field: "2026-01-01T00:00:00Z", f"{field}_nanos": 999} for field in fields),
        bad=tuple(
            {field: time, f"{field}_nanos": nanos}
            for field in fields
            for time, nanos in (("2026-01-01T00:00:00Z", 1000), ("2026-01-01T00:00:00Z", -1))
        )
        + tuple({field: None, f"{field}_nanos": 1} for field in fields),
    )


def _target_rule(record: str) -> ContractRule:
    return ContractRule(
        id=f"{record}.target",
        record=record,
        fields=("target_kind", "target_event_id", "target_step"),
        sentence=(
            "A target of kind event has an event id, one of kind step has a step of 0 or more, "
            "and one of kind trajectory has neither."
        ),
        holds=predicates.target_is_named,
        good=(
            {"target_kind": "trajectory"},
            {"target_kind": "event", "target_event_id": _SOME_ID},
            {"target_kind": "step", "target_step": 0},
        ),
        bad=(
            {"target_kind": "event"},
            {"target_kind": "step"},
            {"target_kind": "step", "target_step": -1},
            {"target_kind": "step", "target_step": 1, "target_event_id": _SOME_ID},
            {"target_kind": "trajectory", "target_step": 1},
            {"target_kind": "trajectory", "target_event_id": _SOME_ID},
            {"target_kind": "unknown"},
        ),
    )


def general_rules() -> Iterator[ContractRule]:
    """Yield the rules that several records have, each for its own fields."""
    yield _id_rule("Event.ids", "Event", "tenant_id", "trajectory_id", "producer_id", required=True)
    yield from _OTHER_IDS
    yield from _name_rules()
    yield from _number_rules()
    yield from _json_rules()
    yield _time_rule("Event", "occurred_at", "ended_at")
    yield _nanos_rule("Event", "occurred_at", "ended_at")
    yield _nanos_rule("Reward", "observed_at")
    for record in ("Reward", "Feedback", "Annotation"):
        yield _time_rule(record, "observed_at")
        yield _target_rule(record)


_OTHER_IDS = (
    _id_rule(
        "Event.optional_ids",
        "Event",
        "session_id",
        "end_user_id",
        "task_id",
        "group_id",
        "parent_event_id",
        "parent_trajectory_id",
        "spawned_by",
        "trace_id",
        "span_id",
        "parent_span_id",
        "source_step_id",
    ),
    _id_rule("Link.ids", "Link", "trajectory_id", "event_id", "trace_id", "span_id"),
    _id_rule("Reward.ids", "Reward", "target_event_id", "compared_to", "supersedes"),
    _id_rule("Feedback.ids", "Feedback", "target_event_id"),
    _id_rule("Annotation.ids", "Annotation", "target_event_id"),
    _id_rule("Handoff.ids", "Handoff", "trajectory_id"),
    _id_rule("ToolCall.ids", "ToolCall", "subagent_trajectory_id"),
    _id_rule("Outcome.ids", "Outcome", "subagent_trajectory_id"),
)
