from collections.abc import Sequence
from dataclasses import fields
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, strategies as st
from tests.unit.access.requests import NOON, PURPOSES, FixedPolicies, data, principal

from atdp.access import (
    ACTIONS,
    AccessRules,
    Authorizer,
    DataResource,
    TenantData,
    guard_refusal,
)
from atdp.runtime import Principal, RegisterUnavailable

ROLES = ["agent", "analyst", "steward", "trainer", "evaluator", "operator", "auditor", "recorder"]
MAY: dict[str, set[str]] = {
    "agent": {"ingest"},
    "analyst": {"analytics"},
    "steward": {"preview", "erase"},
    "trainer": {"train", "export"},
    "evaluator": {"replay"},
    "recorder": {"ingest"},
    "operator": {"analytics", "train", "replay", "export"},
    "auditor": set(),
}


@pytest.mark.parametrize("role", ROLES)
def test_a_role_may_do_its_own_actions_and_no_other(role: str) -> None:
    authorizer = Authorizer()
    allowed = {
        action
        for action in ACTIONS
        if authorizer.authorize(principal(role), action, data(), NOON).allowed
    }
    assert allowed == MAY[role]


@pytest.mark.parametrize("action", sorted(PURPOSES))
@pytest.mark.parametrize("attribute", [field.name for field in fields(DataResource)])
def test_data_with_an_unknown_attribute_is_denied(attribute: str, action: str) -> None:
    role = next(role for role in ROLES if action in MAY[role])
    decision = Authorizer().authorize(principal(role), action, data(**{attribute: None}), NOON)
    assert (decision.allowed, decision.reason) == (False, "missing_attribute")
    assert repr(attribute) in decision.errors[0]


DENIED: dict[str, tuple[Principal, str, Any, str]] = {
    "unknown action": (principal("trainer"), "fly", data(), "unknown_action"),
    "no action": (principal("trainer"), "", data(), "unknown_action"),
    "other tenant": (principal("trainer"), "train", data(tenant="rival"), "other_tenant"),
    "tenant of a prefix": (principal("trainer", "acm"), "train", data(), "other_tenant"),
    "all tenants": (principal("trainer", "*"), "train", data(tenant="*"), "other_tenant"),
    "unknown role": (principal("boss"), "train", data(), "role_denied"),
    "operator of one tenant": (
        Principal(key_id="k", tenant="acme", role="operator"),
        "train",
        data(),
        "other_tenant",
    ),
    "quarantined": (principal("trainer"), "train", data(quarantined=True), "quarantined"),
    "expired": (principal("trainer"), "train", data(expires_at=NOON), "expired"),
    "expired long ago": (
        principal("analyst"),
        "analytics",
        data(expires_at=NOON - timedelta(days=9)),
        "expired",
    ),
    "expiry without a zone": (
        principal("trainer"),
        "train",
        data(expires_at=(NOON + timedelta(days=1)).replace(tzinfo=None)),
        "expired",
    ),
    "withdrawn": (principal("trainer"), "train", data(consent="withdrawn"), "consent_missing"),
    "withdrawn, to be exported": (
        principal("trainer"),
        "export",
        data(consent="withdrawn"),
        "consent_missing",
    ),
    "withdrawn since": (
        principal("evaluator"),
        "replay",
        data(consent="withdrawn_since"),
        "consent_missing",
    ),
    "consent over": (principal("evaluator"), "replay", data(consent="expired"), "consent_missing"),
    "never asked": (principal("trainer"), "train", data(consent="unknown"), "consent_missing"),
    "a word that is no consent": (
        principal("trainer"),
        "train",
        data(consent="Granted"),
        "consent_missing",
    ),
    "no purpose": (principal("trainer"), "train", data(purposes=frozenset()), "purpose_missing"),
    "another purpose": (
        principal("trainer"),
        "export",
        data(purposes=frozenset({"train"})),
        "purpose_missing",
    ),
    "training on all data at once": (
        principal("trainer"),
        "train",
        TenantData(tenant="acme"),
        "single_trajectory_needed",
    ),
    "all data of nobody": (
        principal("analyst"),
        "analytics",
        TenantData(tenant=""),
        "missing_attribute",
    ),
    "raw data for the operator": (
        principal("operator"),
        "preview",
        TenantData(tenant="acme"),
        "role_denied",
    ),
}


@pytest.mark.parametrize(("who", "action", "what", "reason"), DENIED.values(), ids=DENIED.keys())
def test_what_a_guard_refuses_is_denied_with_its_name(
    who: Principal, action: str, what: Any, reason: str
) -> None:
    permissive = Authorizer(FixedPolicies("permit (principal, action, resource);"))
    decision = permissive.authorize(who, action, what, NOON)
    assert (decision.allowed, decision.reason, decision.policies) == (False, reason, ())


def test_data_without_restrictions_expires_never_and_a_moment_before_its_end_is_in_time() -> None:
    authorizer = Authorizer()
    soon = data(expires_at=NOON + timedelta(microseconds=1))
    assert authorizer.authorize(principal("trainer"), "train", soon, NOON).allowed
    later = NOON + timedelta(microseconds=1)
    assert not authorizer.authorize(principal("trainer"), "train", soon, later).allowed


def test_a_forbidding_rule_wins_and_is_named() -> None:
    rule = """@id("no-secrets")
    forbid (principal, action == Action::"train", resource)
    when { resource.classification == "secret" };"""
    authorizer = Authorizer(FixedPolicies(rule, "permit (principal, action, resource);"))
    denied = authorizer.authorize(
        principal("trainer"), "train", data(classification="secret"), NOON
    )
    assert (denied.reason, denied.policies) == ("policy_forbids", ("test@1/no-secrets",))
    allowed = authorizer.authorize(principal("trainer"), "train", data(), NOON)
    assert allowed.policies == ("default/trainers-train", "test@2/rule1")


def test_a_rule_can_name_principals_and_their_kind() -> None:
    rule = """forbid (principal == Principal::"key:0123456789ab", action, resource);
    forbid (principal, action == Action::"export", resource) unless { principal.kind == "key" };"""
    authorizer = Authorizer(FixedPolicies(rule))
    assert not authorizer.authorize(principal("trainer"), "train", data(), NOON).allowed
    person = Principal(
        key_id="", tenant="acme", role="trainer", issuer="https://x", subject='a"b\\c é'
    )
    assert authorizer.authorize(person, "train", data(), NOON).allowed
    assert authorizer.authorize(person, "export", data(), NOON).reason == "policy_forbids"


def test_all_data_of_a_tenant_is_denied_where_a_rule_depends_on_single_trajectories() -> None:
    everything = TenantData(tenant="acme")
    analyst = principal("analyst")
    assert Authorizer().authorize(analyst, "analytics", everything, NOON).allowed
    rule = """@id("no-secrets") forbid (principal, action == Action::"analytics", resource)
    when { resource.classification == "secret" };"""
    decision = Authorizer(FixedPolicies(rule)).authorize(analyst, "analytics", everything, NOON)
    assert (decision.reason, decision.policies) == ("depends_on_trajectory", ("test@1/no-secrets",))
    rule = """forbid (principal, action == Action::"analytics", resource)
    when { principal.tenant == "acme" };"""
    decision = Authorizer(FixedPolicies(rule)).authorize(analyst, "analytics", everything, NOON)
    assert decision.reason == "policy_forbids"


@pytest.mark.parametrize(
    "text",
    [
        "forbid (principal, action, resource) when { resource.nothing_like_it == 1 };",
        'permit (principal, action == Action::"fly", resource);',
        "forbid (principal, action, resource",
        "",
        "forbid (principal, action, resource) when { resource.consent == 1 };",
        "permit (principal == ?principal, action, resource);",
    ],
)
def test_a_rule_that_is_not_valid_denies_everything_of_its_tenant(text: str) -> None:
    authorizer = Authorizer(FixedPolicies(text))
    for what in (data(), TenantData(tenant="acme")):
        decision = authorizer.authorize(principal("analyst"), "analytics", what, NOON)
        assert (decision.allowed, decision.reason) == (False, "policies_unavailable")


@pytest.mark.parametrize(
    "text",
    [
        # Fails when it is evaluated: the sum is beyond 64 bits.
        "forbid (principal, action, resource) when { 9223372036854775807 + 1 == 0 };",
        "permit (principal, action, resource) when { 9223372036854775807 + 1 == 0 };",
    ],
)
@pytest.mark.parametrize("what", [data(), TenantData(tenant="acme")], ids=["one", "all"])
def test_a_rule_that_fails_in_use_denies_and_is_never_skipped(text: str, what: Any) -> None:
    decision = Authorizer(FixedPolicies(text)).authorize(
        principal("analyst"), "analytics", what, NOON
    )
    assert (decision.allowed, decision.reason) == (False, "policy_error")
    assert decision.errors


def test_attributes_of_another_type_deny() -> None:
    wrong = data(classification=7)
    decision = Authorizer().authorize(principal("trainer"), "train", wrong, NOON)
    assert (decision.allowed, decision.reason) == (False, "policy_error")


def test_policies_that_cannot_be_read_deny() -> None:
    class Unreachable:
        def access_rules(self, tenant: str) -> Sequence[AccessRules]:
            raise RegisterUnavailable("no broker")

    decision = Authorizer(Unreachable()).authorize(principal("trainer"), "train", data(), NOON)
    assert (decision.allowed, decision.reason) == (False, "policies_unavailable")
    assert decision.errors == ("no broker",)


def test_a_changed_policy_counts_from_the_next_decision_on() -> None:
    policies = FixedPolicies()
    authorizer = Authorizer(policies)
    assert authorizer.authorize(principal("trainer"), "train", data(), NOON).allowed
    policies.rules = [AccessRules(name="new@1", text="forbid (principal, action, resource);")]
    assert not authorizer.authorize(principal("trainer"), "train", data(), NOON).allowed
    policies.rules = []
    assert authorizer.authorize(principal("trainer"), "train", data(), NOON).allowed


def test_a_pinned_authorizer_keeps_the_policies_that_it_has_read() -> None:
    policies = FixedPolicies()
    authorizer = Authorizer(policies)
    pinned = authorizer.pinned()
    assert pinned.authorize(principal("trainer"), "train", data(), NOON).allowed
    policies.rules = [AccessRules(name="new@1", text="forbid (principal, action, resource);")]
    assert pinned.authorize(principal("trainer"), "train", data(), NOON).allowed
    assert not authorizer.authorize(principal("trainer"), "train", data(), NOON).allowed
    assert not authorizer.pinned().authorize(principal("trainer"), "train", data(), NOON).allowed


_WORDS = st.sampled_from(["granted", "withdrawn", "unknown", "exact", "", "x"])
_CONDITIONS = st.sampled_from(
    [
        "",
        'when { resource.purposes.contains("train") }',
        'unless { resource.tenant == "acme" }',
        "when { principal.tenant != resource.tenant }",
        'when { resource.consent == "withdrawn" }',
    ]
)
_RULES = st.lists(
    st.builds(
        "{} (principal, action, resource) {};".format,
        st.sampled_from(["permit", "permit", "forbid"]),
        _CONDITIONS,
    ),
    min_size=1,
    max_size=3,
)
_DATA = st.builds(
    data,
    tenant=st.sampled_from(["acme", "rival", "*", "", None]),
    purposes=st.one_of(st.none(), st.frozensets(st.sampled_from(sorted(PURPOSES)))),
    consent=st.one_of(st.none(), _WORDS),
    classification=st.one_of(st.none(), _WORDS),
    quarantined=st.sampled_from([True, False, None]),
    token_fidelity=st.one_of(st.none(), _WORDS),
    expires_at=st.sampled_from([None, NOON, NOON + timedelta(days=1)]),
)


@given(
    texts=_RULES,
    role=st.sampled_from([*ROLES, "boss"]),
    tenant=st.sampled_from(["acme", "rival", "*"]),
    action=st.sampled_from([*sorted(ACTIONS), "fly"]),
    what=st.one_of(_DATA, st.builds(TenantData, tenant=st.sampled_from(["acme", "rival"]))),
)
def test_no_text_of_a_policy_can_allow_what_the_guards_deny(
    texts: list[str], role: str, tenant: str, action: str, what: Any
) -> None:
    who = principal(role, tenant)
    decision = Authorizer(FixedPolicies(*texts)).authorize(who, action, what, NOON)
    if guard_refusal(who, action, what, NOON) is not None:
        assert not decision.allowed
    if any(text.startswith("forbid (principal, action, resource) ;") for text in texts):
        assert not decision.allowed
    if decision.allowed:
        assert action in MAY[role]
        assert not decision.errors
