"""Field rules empty any place of the schema, and a rule that cannot have its effect is refused."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from atdp.governance.consent import nothing_registered
from atdp.governance.errors import PolicyError
from atdp.governance.policy import CompiledPolicy, PolicyDocument, compile_policy
from atdp.governance.redact.pseudonyms import TenantKey
from atdp.governance.tenant_governor import GovernedEvent, TenantGovernor
from atdp.schemas import decode_record, encode_record

from .planted import NOW, record

SECRET = "the merger will fail"


class CodePoints:
    """A tokenizer whose ids are code points."""

    def readings(self, tokenizer_hash: str, ids: Sequence[int]) -> Sequence[str]:
        return ("".join(map(chr, ids)),)

    def pieces(self, tokenizer_hash: str, ids: Sequence[int]) -> None:
        return None

    def encode(self, tokenizer_hash: str, text: str) -> None:
        return None

    def is_control(self, tokenizer_hash: str, token_id: int) -> bool:
        return False


def policy(document: PolicyDocument, *rules: tuple[str, str]) -> CompiledPolicy:
    data = document.model_dump(mode="json")
    data["fields"] = [{"path": path, "do": do} for path, do in rules] + data["fields"]
    return compile_policy(PolicyDocument.model_validate(data))


def govern(compiled: CompiledPolicy, event: dict[str, Any]) -> GovernedEvent:
    key = TenantKey(b"k" * 32)
    return TenantGovernor.of("acme", compiled, nothing_registered, key, CodePoints()).govern(
        event, NOW
    )


def planted(kind: str) -> dict[str, Any]:
    """Return a record whose texts all differ, so that the end user's id stands nowhere else."""
    return record(kind, lambda number: "word" + "".join("abcdefghij"[int(d)] for d in str(number)))


def value_at(record: Any, path: str) -> Any:
    """Return the value at `path`, in the first item of each list."""
    value = record
    for name in path.split("."):
        value = value[0] if isinstance(value, list) and value else value
        value = value[name] if isinstance(value, dict) else None
    return value


def generation(prompt: str = SECRET) -> dict[str, Any]:
    event = planted("action")
    event["governance"] = None
    event["action"]["tool_call"] = None
    event["action"]["message"]["parts"][0]["text"] = "ok"
    event["action"]["generation"].update(
        prompt_token_ids=list(map(ord, prompt)),
        prompt_prefix_event_id=None,
        output_token_ids=[111, 107],
        output_logprobs=[-0.5, -0.5],
        loss_mask=None,
    )
    return event


@pytest.mark.parametrize(
    ("path", "kind", "expected"),
    [
        (
            "observation",
            "observation",
            {"observation": {"messages": [], "tools_json": None, "context_base": None}},
        ),
        ("observation.*", "observation", {"observation": {"messages": [], "context_base": None}}),
        ("observation.messages", "observation", {"observation": {"messages": []}}),
        ("observation.messages.parts.text", "observation", {}),
        ("usage", "gap", {"usage": None}),
        ("usage.*", "gap", {"usage": None}),
        ("usage.input_tokens", "gap", {}),
        ("latency_us", "gap", {"latency_us": None}),
        ("caused_by", "gap", {"caused_by": []}),
        ("status", "gap", {"status": "unknown"}),
        ("agent", "gap", {"agent": {"id": "", "version": None, "framework": None}}),
        ("action.generation", "action", {"action": {"generation": None}}),
        ("action.generation.sampling.seed", "action", {}),
        ("outcome.error", "outcome", {"outcome": {"error": None}}),
        ("reward.value", "reward", {"reward": {"value": None}}),
    ],
)
def test_a_place_that_a_rule_names_is_emptied_and_reported(
    default_document: PolicyDocument, path: str, kind: str, expected: dict[str, Any]
) -> None:
    compiled = policy(default_document, (path, "drop_field"))
    governed = govern(compiled, planted(kind))
    value = value_at(governed.record, path.removesuffix(".*"))
    assert governed.changed
    assert ("FIELD", "drop_field") in {(one.entity, one.operator) for one in governed.replacements}
    for name, fields in expected.items():
        if isinstance(fields, dict):
            assert {key: governed.record[name][key] for key in fields} == fields
        else:
            assert governed.record[name] == fields
    assert expected or value is None
    again = govern(compiled, decode_record(encode_record("event", governed.record))[1])
    # The end user's id, which the first pass has learned, is a pseudonym now.
    governed.record["governance"]["learned_version"] = 0
    assert again.record == governed.record


def test_the_first_rule_that_matches_a_field_or_its_container_decides(
    default_document: PolicyDocument,
) -> None:
    compiled = policy(
        default_document, ("observation.messages.role", "scan"), ("observation", "drop_field")
    )
    (message,) = govern(compiled, planted("observation")).record["observation"]["messages"]
    assert message["role"].startswith("word")
    assert {name for name, value in message.items() if value} == {"role"}


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("observaton.*", "matches no field"),
        ("observation.message", "matches no field"),
        ("seq", "would drop seq"),
        ("kind", "would drop kind"),
        ("tenant_*", "would drop tenant_id"),
        ("cost.amount", "would drop cost.amount"),
    ],
)
def test_a_rule_that_cannot_have_its_effect_is_refused(
    default_document: PolicyDocument, path: str, problem: str
) -> None:
    with pytest.raises(PolicyError, match=problem):
        policy(default_document, (path, "drop_field"))
    policy(default_document, ("cost.amount", "scan"), ("cost.*", "drop_field"))


@pytest.mark.parametrize(
    "path",
    [
        "observation",
        "observation.*",
        "observation.messages",
        "observation.messages.parts",
        "outcome.message",
        "action.message.parts.text",
        "trajectory_started.task",
        "trajectory_started.*",
    ],
)
def test_token_ids_never_contain_text_that_the_policy_drops(
    default_document: PolicyDocument, path: str
) -> None:
    kept = govern(policy(default_document), generation())
    assert kept.record["governance"]["token_fidelity"] == "exact"
    governed = govern(policy(default_document, (path, "drop_field")), generation())
    tokens = governed.record["action"]["generation"]
    assert [
        tokens[name] for name in ("prompt_token_ids", "output_token_ids", "output_logprobs")
    ] == [None] * 3
    assert governed.record["governance"]["token_fidelity"] == "dropped"
    assert governed.record["governance"]["training_eligible"] is False
    assert json.dumps(list(map(ord, SECRET)))[1:-1] not in json.dumps(tokens, default=str)


@pytest.mark.parametrize(
    ("path", "fidelity"),
    [
        ("action.generation.prompt_token_ids", "context_changed"),
        ("action.generation.output_token_ids", "dropped"),
        ("action.generation.*_token_ids", "dropped"),
        ("observation.messages.role", "dropped"),
        ("observation.context_hash", "exact"),
        ("usage", "exact"),
    ],
)
def test_fidelity_follows_what_is_dropped(
    default_document: PolicyDocument, path: str, fidelity: str
) -> None:
    governed = govern(policy(default_document, (path, "drop_field")), generation())
    assert governed.record["governance"]["token_fidelity"] == fidelity
