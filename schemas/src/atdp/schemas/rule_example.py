"""Whole events made from the examples of the rules.

Each example is an event in its JSON form. A good one keeps every rule; a bad one breaks the rule
that it is an example of. Some bad ones hold numbers that JSON has no form for (NaN, infinities).
"""

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from atdp.schemas.contract_rule import ContractRule, Example
from atdp.schemas.rule_catalogue import contract_rules


@dataclass(frozen=True, kw_only=True, slots=True)
class RuleExample:
    """An event in its JSON form that keeps all rules (`good`), or breaks the rule `rule_id`."""

    rule_id: str
    good: bool
    document: Mapping[str, Any]


def rule_examples() -> Iterator[RuleExample]:
    """Yield the examples of every rule, in the order of the rules."""
    for rule in contract_rules():
        for good, examples in ((True, rule.good), (False, rule.bad)):
            for example in examples:
                yield RuleExample(rule_id=rule.id, good=good, document=_document(rule, example))


_ENVELOPE: Mapping[str, Any] = {
    "event_id": "019aa5c0-0000-7000-8000-000000000001",
    "tenant_id": "acme",
    "trajectory_id": "t-1",
    "producer_id": "p-1",
    "seq": 0,
    "agent": {"id": "desk"},
    "source": {"format": "conformance"},
}
_STARTED: Mapping[str, Any] = {"trajectory_started": {}}
_PART: Mapping[str, Any] = {"type": "text", "text": "hi"}


def _of_action(kind: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"action": {"type": kind, kind: body}}


_BODIES: Mapping[str, tuple[Mapping[str, Any], tuple[str | int, ...]]] = {
    "Event": (_STARTED, ()),
    "Link": ({**_STARTED, "links": [{"relation": "follows"}]}, ("links", 0)),
    "Agent": (_STARTED, ("agent",)),
    "Source": (_STARTED, ("source",)),
    "Versions": ({**_STARTED, "versions": {}}, ("versions",)),
    "Usage": ({**_STARTED, "usage": {}}, ("usage",)),
    "Cost": ({**_STARTED, "cost": {"amount": 0.5}}, ("cost",)),
    "Message": (
        {"observation": {"messages": [{"role": "user", "parts": [_PART]}]}},
        ("observation", "messages", 0),
    ),
    "Part": (
        {"observation": {"messages": [{"role": "user", "parts": [_PART]}]}},
        ("observation", "messages", 0, "parts", 0),
    ),
    "Observation": ({"observation": {"messages": []}}, ("observation",)),
    "InternalState": ({"internal_state": {"type": "plan"}}, ("internal_state",)),
    "Action": ({"action": {}}, ("action",)),
    "Generation": (_of_action("generation", {}), ("action", "generation")),
    "Sampling": (
        _of_action("generation", {"sampling": {}}),
        ("action", "generation", "sampling"),
    ),
    "RoutedExperts": (
        _of_action("generation", {"routed_experts": {"layers": 1, "experts_per_token": 1}}),
        ("action", "generation", "routed_experts"),
    ),
    "BlobRef": (
        _of_action("generation", {"request_ref": {}}),
        ("action", "generation", "request_ref"),
    ),
    "ToolCall": (
        _of_action("tool_call", {"call_id": "c", "name": "calc", "arguments": "{}"}),
        ("action", "tool_call"),
    ),
    "VersionSpan": (
        _of_action("generation", {"policy_versions": [{"version": "v", "start": 0, "end": 1}]}),
        ("action", "generation", "policy_versions", 0),
    ),
    "Approval": (_of_action("approval", {"subject": "refund"}), ("action", "approval")),
    "Handoff": (_of_action("handoff", {"to": "person"}), ("action", "handoff")),
    "Retrieval": (_of_action("retrieval", {}), ("action", "retrieval")),
    "Document": (
        _of_action("retrieval", {"documents": [{}]}),
        ("action", "retrieval", "documents", 0),
    ),
    "Embedding": (_of_action("embedding", {}), ("action", "embedding")),
    "Guardrail": (_of_action("guardrail", {"name": "pii"}), ("action", "guardrail")),
    "Plan": (_of_action("plan", {}), ("action", "plan")),
    "Outcome": ({"outcome": {}}, ("outcome",)),
    "Reward": (
        {"reward": {"target_kind": "trajectory", "source_name": "judge", "value": 1.0}},
        ("reward",),
    ),
    "Feedback": ({"feedback": {"target_kind": "trajectory", "type": "rating"}}, ("feedback",)),
    "Annotation": ({"annotation": {"target_kind": "trajectory", "name": "label"}}, ("annotation",)),
    "Gap": ({"gap": {"code": "queue_full"}}, ("gap",)),
}
"""An event's body, and the place of the record in the event, for every record that has rules."""

_BESIDE_BODIES = frozenset({"links", "usage", "cost", "versions"})
"""Fields of the examples above that are no body."""


def _document(rule: ContractRule, example: Example) -> dict[str, Any]:
    fields, place = _BODIES[rule.record]
    document = copy.deepcopy({**_ENVELOPE, **fields})
    document["kind"] = next(name for name in fields if name not in _BESIDE_BODIES)
    record: Any = document
    for key in place:
        record = record[key]
    record.update(copy.deepcopy(dict(example)))
    if "target_event_id" in example and "target_kind" not in example:
        record["target_kind"] = "event"
    return document
