"""Rules of single records of the contract: the event itself, actions, generations and rewards."""

from atdp.schemas import _rule_predicates as predicates
from atdp.schemas.contract_rule import ContractRule

_TIME, _LATER = "2026-01-01T00:00:00.000001Z", "2026-01-01T00:00:00.000002Z"
_SOME_ID = "019aa5c0-0000-7000-8000-000000000009"
_CALL = {"call_id": "c", "name": "calc", "arguments": "{}"}
_MESSAGE = {"role": "assistant", "parts": [{"type": "text", "text": "hi"}]}

RECORD_RULES: tuple[ContractRule, ...] = (
    ContractRule(
        id="Event.event_id",
        record="Event",
        fields=("event_id",),
        sentence="An event id is a UUID as text in lower case.",
        holds=lambda text: predicates.UUID_TEXT.fullmatch(text) is not None,
        good=({"event_id": _SOME_ID},),
        bad=(
            {"event_id": ""},
            {"event_id": "e"},
            {"event_id": _SOME_ID.upper()},
            {"event_id": _SOME_ID + "\n"},
            {"event_id": "{" + _SOME_ID + "}"},
        ),
    ),
    ContractRule(
        id="Event.caused_by",
        record="Event",
        fields=("caused_by",),
        sentence="Every cause is an id, as the rule for ids says.",
        holds=lambda causes: predicates.are_required_ids(*causes),
        good=({"caused_by": []}, {"caused_by": [_SOME_ID]}),
        bad=({"caused_by": [""]}, {"caused_by": [_SOME_ID, "a\tb"]}),
    ),
    ContractRule(
        id="Event.end",
        record="Event",
        fields=("occurred_at", "occurred_at_nanos", "ended_at", "ended_at_nanos"),
        sentence="An event does not end before it began.",
        holds=predicates.ends_after_start,
        good=(
            {"occurred_at": _TIME, "ended_at": _TIME},
            {"occurred_at": _TIME, "occurred_at_nanos": 999, "ended_at": _LATER},
            {"ended_at": _TIME},
        ),
        bad=(
            {"occurred_at": _LATER, "ended_at": _TIME},
            {
                "occurred_at": _TIME,
                "occurred_at_nanos": 2,
                "ended_at": _TIME,
                "ended_at_nanos": 1,
            },
        ),
    ),
    ContractRule(
        id="Cost.currency",
        record="Cost",
        fields=("currency",),
        sentence="A currency is three capital letters (ISO 4217).",
        holds=lambda text: predicates.CURRENCY_CODE.fullmatch(text) is not None,
        good=({"currency": "EUR"},),
        bad=({"currency": ""}, {"currency": "usd"}, {"currency": "EURO"}, {"currency": "EU1"}),
    ),
    *(
        ContractRule(
            id=f"{record}.confidence",
            record=record,
            fields=("confidence",),
            sentence="A confidence lies between 0 and 1, both inclusive.",
            holds=lambda confidence: confidence is None or 0 <= confidence <= 1,
            good=({"confidence": 0.0}, {"confidence": 1.0}),
            bad=({"confidence": -0.1}, {"confidence": 1.5}),
        )
        for record in ("InternalState", "Link", "Reward")
    ),
    ContractRule(
        id="Action.body",
        record="Action",
        fields=("type", *predicates.ACTION_BODIES),
        sentence=(
            "An action has exactly the body that its type names; "
            "a generation may have a message as well."
        ),
        holds=predicates.has_named_body,
        good=(
            {"type": "message", "message": _MESSAGE},
            {"type": "generation", "generation": {}},
            {"type": "generation", "generation": {}, "message": _MESSAGE},
            {"type": "tool_call", "tool_call": _CALL},
            {"type": "memory_op", "memory_op": {"op": "add"}},
            {"type": "code_edit", "code_edit": {"path": "a.py"}},
            {"type": "handoff", "handoff": {"to": "person"}},
            {"type": "approval", "approval": {"subject": "refund"}},
            {"type": "retrieval", "retrieval": {}},
            {"type": "embedding", "embedding": {}},
            {"type": "guardrail", "guardrail": {"name": "pii"}},
            {"type": "plan", "plan": {}},
        ),
        bad=(
            {"type": "tool_call"},
            {"type": "tool_call", "tool_call": _CALL, "handoff": {"to": "person"}},
            {"type": "tool_call", "generation": {}},
            {"type": "generation"},
            {"type": "generation", "message": _MESSAGE},
            {"type": "message", "message": _MESSAGE, "generation": {}},
            {"type": "unknown", "message": _MESSAGE},
        ),
    ),
    ContractRule(
        id="Generation.arrays",
        record="Generation",
        fields=("output_token_ids", "output_logprobs", "loss_mask"),
        sentence="Log-probabilities and loss mask have one number for each output token id.",
        holds=predicates.same_length,
        good=(
            {"output_token_ids": [1, 2], "output_logprobs": [-1.0, 0.0], "loss_mask": [1, 0]},
            {"output_token_ids": [1]},
        ),
        bad=(
            {"output_logprobs": [-1.0]},
            {"output_token_ids": [1, 2], "output_logprobs": [-1.0]},
            {"output_token_ids": [1, 2], "loss_mask": [1]},
            {"output_token_ids": [], "output_logprobs": [-1.0]},
        ),
    ),
    ContractRule(
        id="Generation.loss_mask",
        record="Generation",
        fields=("loss_mask",),
        sentence="A loss mask consists of 0 and 1.",
        holds=predicates.zeros_and_ones,
        good=({"output_token_ids": [1, 2], "loss_mask": [0, 1]},),
        bad=({"output_token_ids": [1, 2], "loss_mask": [0, 2]},),
    ),
    ContractRule(
        id="Generation.policy_versions",
        record="Generation",
        fields=("policy_versions.start", "policy_versions.end", "output_token_ids"),
        sentence=(
            "Version spans are not empty, follow each other without overlap, "
            "and lie within the output tokens."
        ),
        holds=predicates.spans_in_order,
        good=(
            {
                "output_token_ids": [1, 2],
                "policy_versions": [{"version": "v", "start": 0, "end": 2}],
            },
            {"policy_versions": [{"version": "v", "start": 0, "end": 2}]},
        ),
        bad=(
            {"output_token_ids": [1], "policy_versions": [{"version": "v", "start": 0, "end": 2}]},
            {"policy_versions": [{"version": "v", "start": -1, "end": 2}]},
            {"policy_versions": [{"version": "v", "start": 1, "end": 1}]},
            {
                "policy_versions": [
                    {"version": "v", "start": 0, "end": 2},
                    {"version": "w", "start": 1, "end": 3},
                ]
            },
        ),
    ),
    ContractRule(
        id="Generation.token_splices",
        record="Generation",
        fields=("token_splices.start", "token_splices.end", "token_splices.tokens"),
        sentence="Replaced tokens are not empty and follow each other without overlap.",
        holds=predicates.splices_in_order,
        good=({"token_splices": [{"start": 0, "end": 2, "tokens": 5}]},),
        bad=(
            {"token_splices": [{"start": -1, "end": 2, "tokens": 5}]},
            {"token_splices": [{"start": 1, "end": 1, "tokens": 5}]},
            {"token_splices": [{"start": 0, "end": 1, "tokens": -1}]},
            {
                "token_splices": [
                    {"start": 0, "end": 2, "tokens": 5},
                    {"start": 1, "end": 3, "tokens": 0},
                ]
            },
        ),
    ),
    ContractRule(
        id="Generation.prompt_prefix",
        record="Generation",
        fields=("prompt_prefix_event_id", "prompt_prefix_tokens"),
        sentence="A prompt prefix has both the id of its generation and a length above 0.",
        holds=predicates.prefix_is_whole,
        good=({"prompt_prefix_event_id": _SOME_ID, "prompt_prefix_tokens": 1},),
        bad=(
            {"prompt_prefix_event_id": _SOME_ID},
            {"prompt_prefix_tokens": 1},
            {"prompt_prefix_event_id": _SOME_ID, "prompt_prefix_tokens": 0},
            {"prompt_prefix_event_id": "", "prompt_prefix_tokens": 1},
        ),
    ),
    ContractRule(
        id="RoutedExperts.tokens",
        record="RoutedExperts",
        fields=("layers", "experts_per_token", "start_token", "expert_ids"),
        sentence="Ids of experts belong to a whole number of tokens.",
        holds=predicates.experts_of_whole_tokens,
        good=({"layers": 2, "experts_per_token": 1, "expert_ids": [0, 1, 2, 3]},),
        bad=(
            {"layers": 2, "experts_per_token": 1, "expert_ids": [0, 1, 2]},
            {"layers": 0, "experts_per_token": 1},
            {"layers": 1, "experts_per_token": 1, "start_token": -1},
        ),
    ),
    ContractRule(
        id="Reward.content",
        record="Reward",
        fields=("value", "critique"),
        sentence="A reward has a value, a critique, or both.",
        holds=lambda value, critique: value is not None or bool(critique),
        good=({"value": 0.0}, {"value": None, "critique": "too long"}),
        bad=({"value": None}, {"value": None, "critique": ""}),
    ),
    *(
        ContractRule(
            id=f"{record}.range",
            record=record,
            fields=("range_min", "range_max"),
            sentence="The lowest value of a scale is not above the highest.",
            holds=predicates.in_order,
            good=({"range_min": 0.0, "range_max": 0.0}, {"range_min": 1.0}),
            bad=({"range_min": 1.0, "range_max": 0.0},),
        )
        for record in ("Reward", "Feedback")
    ),
    ContractRule(
        id="Reward.evidence",
        record="Reward",
        fields=("evidence",),
        sentence="Evidence is named by ids, as the rule for ids says.",
        holds=lambda evidence: predicates.are_required_ids(*evidence),
        good=({"evidence": []}, {"evidence": [_SOME_ID]}),
        bad=({"evidence": [""]}, {"evidence": [_SOME_ID, "a\tb"]}),
    ),
    ContractRule(
        id="Reward.token_span",
        record="Reward",
        fields=("token_start", "token_end", "target_kind"),
        sentence="A span of tokens has a start and a later end, and its target is an event.",
        holds=predicates.token_span_of_event,
        good=(
            {
                "target_kind": "event",
                "target_event_id": _SOME_ID,
                "token_start": 0,
                "token_end": 1,
            },
        ),
        bad=(
            {"target_kind": "event", "target_event_id": _SOME_ID, "token_start": 0},
            {
                "target_kind": "event",
                "target_event_id": _SOME_ID,
                "token_start": 1,
                "token_end": 1,
            },
            {"token_start": 0, "token_end": 1},
        ),
    ),
    ContractRule(
        id="Reward.comparison",
        record="Reward",
        fields=("compared_to", "target_kind"),
        sentence="A target that is compared is an event or a trajectory.",
        holds=lambda other, kind: other is None or kind in {"event", "trajectory"},
        good=({"compared_to": "t-2"},),
        bad=({"compared_to": "t-2", "target_kind": "step", "target_step": 1},),
    ),
    ContractRule(
        id="Gap.order",
        record="Gap",
        fields=("from_seq", "to_seq"),
        sentence="The first missing number is not above the last.",
        holds=predicates.in_order,
        good=({"from_seq": 3, "to_seq": 3}, {"from_seq": 3}),
        bad=({"from_seq": 4, "to_seq": 3},),
    ),
)
