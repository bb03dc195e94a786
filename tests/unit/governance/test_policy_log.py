"""The fold over decisions about policies gives every reader the same active policies."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from atdp.access import ActivatedContent, DraftedContent, PolicyLog

from .policy_decisions import ANN, BOB, NOON, DecisionSequence, content


def active(log: PolicyLog) -> dict[str, str]:
    return {tenant: policy.name for tenant, policy in log.by_tenant().items()}


def test_an_approved_version_becomes_active_for_its_tenants() -> None:
    steps = DecisionSequence()
    steps.whole(content(tenants=("acme", "globex")))
    assert active(steps.log) == {"acme": "acme@1", "globex": "acme@1"}
    assert steps.log.refused == []


def test_a_star_stands_for_the_tenants_that_nobody_names() -> None:
    steps = DecisionSequence()
    steps.whole(content(policy="default", tenants=("*",)))
    steps.whole(content())
    found = {name: steps.log.active_for(name) for name in ("acme", "other")}
    assert {name: policy and policy.name for name, policy in found.items()} == {
        "acme": "acme@1",
        "other": "default@1",
    }
    assert PolicyLog().active_for("acme") is None


def test_policies_of_the_two_kinds_stand_side_by_side() -> None:
    steps = DecisionSequence()
    steps.whole(content())
    steps.whole(content(policy="acme-access", kind="AccessPolicy"))
    access = steps.log.active_for("acme", "AccessPolicy")
    assert access is not None
    assert (active(steps.log), access.name) == ({"acme": "acme@1"}, "acme-access@1")
    taken = steps.draft(content(2, kind="AccessPolicy"))
    assert "is a policy of kind GovernancePolicy" in steps.refusal(taken)


def test_an_activation_without_an_approval_of_its_content_is_refused() -> None:
    steps = DecisionSequence()
    steps.draft(content())
    assert "is not approved" in steps.refusal(steps.activate(content()))
    steps.approve(content())
    assert "approved with other content" in steps.refusal(steps.activate(content(text="others")))
    assert steps.log.active == {}


def test_an_approval_of_something_that_nobody_drafted_is_refused() -> None:
    steps = DecisionSequence()
    steps.draft(content())
    assert "was not drafted" in steps.refusal(steps.approve(content(text="others")))


def test_versions_only_rise() -> None:
    steps = DecisionSequence()
    steps.whole(content(3))
    for refused in (steps.draft(content(2)), steps.approve(content(2)), steps.activate(content(2))):
        assert steps.refusal(refused)
    steps.whole(content(7))
    assert active(steps.log) == {"acme": "acme@7"}
    assert "versions only rise; use version 8" in steps.refusal(steps.activate(content(3)))
    assert active(steps.log) == {"acme": "acme@7"}


@pytest.mark.parametrize("far", ["approve", "whole"])
def test_a_decided_version_gets_no_other_content(far: str) -> None:
    steps = DecisionSequence()
    steps.draft(content())
    steps.draft(content(text="others"))
    getattr(steps, far)(content())
    for refused in (
        steps.draft(content(text="third")),
        steps.approve(content(text="others")),
        steps.activate(content(text="others")),
    ):
        assert "with other content; use version 2" in steps.refusal(refused)


def test_the_same_activation_again_changes_nothing() -> None:
    steps = DecisionSequence()
    first = steps.whole(content())
    again = steps.activate(content(), BOB)
    assert steps.refusal(again) == ""
    assert steps.log.active["acme"].offset == first.offset
    assert again not in steps.log.accepted


def test_an_approval_covers_the_text_and_the_tenants() -> None:
    steps = DecisionSequence()
    steps.draft(content())
    steps.approve(content())
    wider = content().model_dump() | {"tenants": ("acme", "globex")}
    assert "not those that were approved" in steps.refusal(steps.activate(DraftedContent(**wider)))


def test_with_the_two_person_rule_the_drafter_cannot_approve() -> None:
    steps = DecisionSequence()
    steps.two_person(True)
    steps.draft(content(), ANN)
    assert "drafted acme@1 and cannot approve it" in steps.refusal(steps.approve(content(), ANN))
    assert "is not approved" in steps.refusal(steps.activate(content(), ANN))
    steps.approve(content(), BOB)
    assert steps.refusal(steps.activate(content(), ANN)) == ""
    assert active(steps.log) == {"acme": "acme@1"}


def test_drafting_the_same_content_again_does_not_make_its_drafter_a_second_person() -> None:
    steps = DecisionSequence()
    steps.two_person(True)
    steps.draft(content(), ANN)
    steps.draft(content(), BOB)
    assert "cannot approve" in steps.refusal(steps.approve(content(), ANN))


def test_an_own_approval_does_not_count_once_the_rule_is_on() -> None:
    steps = DecisionSequence()
    steps.draft(content())
    steps.approve(content())
    steps.two_person(True)
    assert "approved only by key:ann" in steps.refusal(steps.activate(content()))
    steps.two_person(False)
    assert steps.refusal(steps.activate(content())) == ""


def test_an_old_setting_that_is_written_again_is_refused() -> None:
    steps = DecisionSequence()
    off = steps.two_person(False)
    steps.two_person(True)
    again = steps.replay(off)
    assert "newer setting" in steps.refusal(again)
    assert steps.log.two_person


def test_two_active_policies_never_name_the_same_tenant() -> None:
    steps = DecisionSequence()
    steps.whole(content())
    other = steps.whole(content(policy="other", tenants=("globex", "acme")))
    assert "acme@1 names the same tenants (acme)" in steps.refusal(other)
    steps.whole(content(2, tenants=("initech",)))
    assert steps.refusal(steps.activate(content(policy="other", tenants=("globex", "acme")))) == ""
    assert active(steps.log) == {"initech": "acme@2", "globex": "other@1", "acme": "other@1"}


@pytest.mark.parametrize(
    "body", [{}, {"id": "acme", "version": "1", "hash": "h"}, {"two_person": 1}, {"id": None}]
)
@pytest.mark.parametrize(
    "kind", ["policy_drafted", "policy_approved", "policy_activated", "policy_settings"]
)
def test_an_entry_of_another_form_is_refused(kind: str, body: dict[str, object]) -> None:
    steps = DecisionSequence()
    entry = replace(steps.draft(content()), kind=kind, body=body)
    assert "form of its kind" in steps.refusal(steps.replay(entry))
    assert steps.log.active == {}


def test_entries_about_other_things_are_passed_over() -> None:
    steps = DecisionSequence()
    entry = replace(steps.draft(content()), kind="consent", body={"tenant": "acme"}, offset=9)
    steps.log.apply(entry)
    assert (steps.log.refused, steps.log.offset) == ([], 9)


def test_each_entry_has_a_key_of_its_own() -> None:
    steps = DecisionSequence()
    steps.whole(content())
    steps.whole(content())
    steps.two_person(True)
    steps.two_person(True)
    assert len({entry.log_key for entry in steps.entries}) == len(steps.entries)


def test_the_states_of_contents() -> None:
    steps = DecisionSequence()
    steps.draft(content(text="never"))
    steps.whole(content())
    steps.whole(content(2))
    steps.draft(content(3))
    steps.approve(content(3))
    steps.draft(content(4))
    assert [
        (each.content.version, each.content.text, steps.log.state_of(each))
        for each in steps.log.drafts("acme")
    ] == [
        (1, "never", "passed over"),
        (1, "rules", "replaced"),
        (2, "rules", "active"),
        (3, "rules", "approved"),
        (4, "rules", "drafted"),
    ]
    assert [each.content.text for each in steps.log.contents("acme", 1)] == ["never", "rules"]


CONTENTS = st.builds(
    content,
    st.integers(1, 3),
    policy=st.sampled_from(["a", "b"]),
    text=st.sampled_from(["x", "y"]),
    tenants=st.sampled_from([("acme",), ("*",), ("acme", "globex")]),
)
STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.sampled_from(["draft", "approve", "activate", "whole"]),
            CONTENTS,
            st.sampled_from([ANN, BOB]),
        ),
        st.tuples(st.just("two_person"), st.booleans(), st.just(ANN)),
    ),
    max_size=25,
)


@given(STEPS)
def test_the_rules_hold_after_every_step(steps: list[tuple[str, object, str]]) -> None:
    sequence = DecisionSequence()
    versions: dict[str, int] = {}
    for name, argument, actor in steps:
        act: Callable[[object, str], object] = getattr(sequence, name)
        act(argument, actor)
        log = sequence.log
        named = [tenant for policy in log.active.values() for tenant in policy.content.tenants]
        assert len(named) == len(set(named))
        for policy_id, policy in log.active.items():
            assert policy.content.version >= versions.get(policy_id, 0)
            versions[policy_id] = policy.content.version
            [draft] = [each for each in log.drafts(policy_id) if log.state_of(each) == "active"]
            assert draft.content == DraftedContent(
                **policy.content.model_dump(exclude={"retention", "reason"})
            )
            assert draft.approvals
    # A reader that comes later, and one that sees only what had an effect, have the same state.
    for entries in (sequence.entries, sequence.log.accepted):
        later = PolicyLog()
        for entry in entries:
            later.apply(entry)
        assert later.active == sequence.log.active
        assert later.two_person == sequence.log.two_person


def test_the_retention_of_the_activation_is_kept() -> None:
    steps = DecisionSequence()
    steps.draft(content())
    steps.approve(content())
    steps.add(ActivatedContent(**content().model_dump(), retention={"short": 30}), ANN)
    assert steps.log.active["acme"].content.retention == {"short": 30}
    assert steps.log.active["acme"].activated_at > NOON
