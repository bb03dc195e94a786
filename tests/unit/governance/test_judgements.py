"""Only keys that may reward give judgements that count; the gate stamps who signed."""

from dataclasses import replace
from typing import Any

import pytest

from atdp.governance.authenticate import named_key
from atdp.governance.judgements import RecordSender
from atdp.governance.policy import PolicyDocument, parse_policy
from atdp.governance.policy.templates import TEMPLATES, template_text
from atdp.governance.record_governor import RecordGovernor
from atdp.governance.testing import policy_store
from atdp.runtime.keys import ApiKey, KeyStore, SessionBinding
from atdp.schemas import Annotation, Body, Feedback, Reward, decode_record

from .raw_records import NOW, raw

STATED = 'rewards: {self: analytics, ranges: {"*": [-1000, 1000]}}\n'
SILENT = template_text("none").replace(STATED, "")
"""A policy that does not mention rewards."""
SESSION = SessionBinding(session_id="s", trajectory_id="t", attempt=0)
JUDGEMENTS: list[Body] = [
    Reward(value=1.0, source_name="human-evaluator"),
    Reward(critique="very good", source_name="human-evaluator"),
    Feedback(type="thumbs", value=1.0, actor="ann"),
    Annotation(name="judge:quality", value_json='{"score": 1}'),
]


def under(governor: RecordGovernor, rewards: str) -> RecordGovernor:
    return replace(governor, policies=policy_store(f"{SILENT}\nrewards: {rewards}\n"))


@pytest.fixture
def silent(governor: RecordGovernor) -> RecordGovernor:
    return replace(governor, policies=policy_store(SILENT))


def stamp(governor: RecordGovernor, key: ApiKey, body: Body | None, **more: Any) -> dict[str, Any]:
    decision = governor.decide(raw(key, body=body, **more), NOW)
    assert decision.governed is not None, decision.reason
    governance = decode_record(decision.governed.value)[1]["governance"]
    return {name: governance[name] for name in ("principal", "principal_role", "self_reward")}


def refusal(governor: RecordGovernor, key: ApiKey, body: Body) -> str | None:
    decision = governor.decide(raw(key, body=body), NOW)
    assert (decision.governed is None) == (decision.decision == "quarantined")
    return decision.reason


def test_every_event_is_stamped_with_the_key_that_signed_it(
    silent: RecordGovernor, store: KeyStore
) -> None:
    key, agent = store.create("acme", "agent")
    signed = {"principal": f"key:{agent.key_id}", "principal_role": "agent"}
    assert stamp(silent, key, None) == {**signed, "self_reward": None}
    assert stamp(silent, key, Annotation(name="topic")) == {**signed, "self_reward": None}
    assert stamp(silent, key, JUDGEMENTS[0]) == {**signed, "self_reward": "analytics"}


@pytest.mark.parametrize("body", JUDGEMENTS, ids=lambda body: type(body).__name__)
def test_a_judgement_of_an_agent_counts_for_analytics_unless_the_policy_says_otherwise(
    governor: RecordGovernor, silent: RecordGovernor, store: KeyStore, body: Body
) -> None:
    agent, parent = store.create("acme", "agent")
    session, _ = store.create_session_key(parent, tenant="acme", session=SESSION)
    for key in (agent, session):
        assert stamp(silent, key, body, session="s")["self_reward"] == "analytics"
        assert stamp(under(governor, "{self: train}"), key, body)["self_reward"] == "train"
        assert refusal(under(governor, "{self: deny}"), key, body) == "self_reward"


@pytest.mark.parametrize("body", JUDGEMENTS, ids=lambda body: type(body).__name__)
def test_a_rater_and_the_recorder_reward_under_every_policy(
    governor: RecordGovernor, store: KeyStore, body: Body
) -> None:
    for tenant, role in (("acme", "rater"), ("*", "recorder")):
        key, principal = store.create(tenant, role)
        for policy in ("{self: deny}", "{self: analytics}"):
            assert stamp(under(governor, policy), key, body) == {
                "principal": f"key:{principal.key_id}",
                "principal_role": role,
                "self_reward": None,
            }


def test_a_rater_sends_nothing_but_judgements(silent: RecordGovernor, store: KeyStore) -> None:
    key, _ = store.create("acme", "rater")
    decision = silent.decide(raw(key), NOW)
    assert (decision.decision, decision.reason) == ("quarantined", "role_may_not_emit")
    assert refusal(silent, key, Annotation(name="topic")) == "role_may_not_emit"
    elsewhere = silent.decide(raw(key, tenant="initech", body=JUDGEMENTS[0]), NOW)
    assert elsewhere.reason == "tenant_mismatch"


def test_a_session_key_does_not_reward_itself_with_a_huge_number(
    governor: RecordGovernor, silent: RecordGovernor, store: KeyStore
) -> None:
    _, parent = store.create("acme", "agent")
    key, _ = store.create_session_key(parent, tenant="acme", session=SESSION)
    huge = Reward(value=1e308, source_name="human-evaluator")
    assert refusal(silent, key, huge) == "reward_out_of_range"
    assert refusal(under(governor, "{self: train}"), key, huge) == "reward_out_of_range"


def test_the_range_is_that_of_the_dimension(governor: RecordGovernor, store: KeyStore) -> None:
    rated = under(governor, '{ranges: {correctness: [0, 1], "*": [-5, 5]}}')
    key, _ = store.create("acme", "rater")

    def reward(value: float, dimension: str = "outcome") -> Reward:
        return Reward(value=value, dimension=dimension, source_name="checker")

    for inside in (reward(1.0, "correctness"), reward(5.0), reward(-5.0)):
        assert stamp(rated, key, inside)["self_reward"] is None
    for outside in (reward(1.01, "correctness"), reward(-0.1, "correctness"), reward(5.1)):
        assert refusal(rated, key, outside) == "reward_out_of_range"


def test_without_ranges_a_wide_bound_holds(silent: RecordGovernor, store: KeyStore) -> None:
    key, _ = store.create("acme", "rater")
    for value in (-1000.0, 1000.0):
        assert stamp(silent, key, Reward(value=value, source_name="s"))["self_reward"] is None
    assert refusal(silent, key, Reward(value=1001.0, source_name="s")) == "reward_out_of_range"


def test_feedback_may_state_a_range_of_its_own(governor: RecordGovernor, store: KeyStore) -> None:
    rated = under(governor, '{ranges: {"*": [0, 1]}}')
    key, _ = store.create("acme", "rater")
    stars = Feedback(type="rating", value=4.0, range_min=1.0, range_max=5.0)
    assert stamp(rated, key, stars)["self_reward"] is None
    assert refusal(rated, key, replace(stars, value=6.0)) == "reward_out_of_range"
    assert refusal(rated, key, Feedback(type="rating", value=4.0)) == "reward_out_of_range"


@pytest.mark.parametrize(
    "ranges", ["{correctness: [1, 0]}", "{correctness: [0]}", "{correctness: [0, .inf]}"]
)
def test_a_range_that_is_none_is_refused_with_the_policy(ranges: str) -> None:
    with pytest.raises(Exception, match="ranges"):
        parse_policy(f"{SILENT}\nrewards: {{ranges: {ranges}}}\n", where="policy")


def test_only_the_demo_lets_agents_reward_themselves_for_training() -> None:
    for name in TEMPLATES:
        document = parse_policy(template_text(name), where=name)
        assert isinstance(document, PolicyDocument)
        assert document.rewards.self == ("train" if name == "demo" else "analytics")


def test_a_record_that_is_governed_again_keeps_its_signer_after_a_revocation(
    store: KeyStore,
) -> None:
    key, principal = store.create("acme", "rater")
    record = raw(key, body=JUDGEMENTS[0])
    store.revoke(principal.key_id)
    named = named_key(record, store.get)
    assert named is not None
    sender = RecordSender.of(named.principal)
    assert (sender.principal, sender.may_reward) == (f"key:{principal.key_id}", True)
    assert named_key(replace(record, headers=[]), store.get) is None
