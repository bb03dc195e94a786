"""Rules files: what is accepted, how a wrong one is named, and when the identity changes."""

import pytest

from atdp.rewards.errors import RulesError
from atdp.rewards.rules_file import DEFAULT_RULES, parse_rules

ALL = """
version: 3
dimension: helpfulness
range: [-1, 1]
rules:
- {name: stars, from: feedback, types: [rating, thumbs], dimension: tone}
- {name: edits, from: feedback, types: [accept, edit, reject],
   value: {accept: 1, edit: 0.5, reject: 0}}
- {name: tests, from: outcome, tool: pytest, target: trajectory, value: exit_code}
- {name: tool-errors, from: outcome, when: error, value: -0.1}
- {name: no-answer, from: end, status: [idle, truncated], unanswered: true, value: 0}
- {name: polite, from: judge, judge: polite}
- {name: seen, from: reward, source_name: checker}
trajectory: {combine: mean, penalties: {per_cost: 2, per_1000_output_tokens: 0.1, at_most: 0.5}}
step: {combine: maximum}
limits: {ratings_per_user_and_day: 5, share_per_user: 0.1, window: 50}
"""


def problem(text: str) -> str:
    with pytest.raises(RulesError) as caught:
        parse_rules(text, where="acme.yaml")
    return str(caught.value)


def test_a_file_with_everything_is_read() -> None:
    rules = parse_rules(ALL, where="acme.yaml")
    assert [rule.name for rule in rules.rules][:2] == ["stars", "edits"]
    assert rules.limits.ratings_per_user_and_window == 5


def test_the_default_rules_give_no_reward_to_what_nobody_judged() -> None:
    assert {rule.source for rule in parse_rules(DEFAULT_RULES, where="d").rules} == {
        "feedback",
    }


@pytest.mark.parametrize(
    ("text", "place", "reason"),
    [
        ("version: 1", "acme.yaml:1:1: rules", "required"),
        ("version: 1\nrules: []", "acme.yaml:2:1: rules", "at least 1"),
        ("version: 0\nrules: [{name: a, from: reward}]", "acme.yaml:1:1: version", "greater"),
        (
            "version: 1\nrules:\n- {name: a, from: dreams}",
            "acme.yaml:3:3: rules.0",
            "dreams",
        ),
        (
            "version: 1\nrules:\n- {name: a, from: reward}\n- {name: a, from: reward}",
            "acme.yaml:2:1: rules",
            "several rules are named a",
        ),
        (
            (
                "version: 1\nrules:\n- name: a\n  from: feedback\n  types: [edit]\n"
                "  value: {accept: 1}"
            ),
            "acme.yaml:3:3: rules.0",
            "no number for edit",
        ),
        (
            "version: 1\nrules:\n- {name: a, from: outcome, value: .nan}",
            "acme.yaml:3:28: rules.0.value",
            "",
        ),
        (
            "version: 1\nrange: [1, 0]\nrules: [{name: a, from: reward}]",
            "acme.yaml:2:1: range",
            "a lower and then a higher",
        ),
        (
            "version: 1\nrules:\n- {name: a, from: feedback, types: [accept]}",
            "acme.yaml:3:3: rules.0",
            "no number for accept",
        ),
        (
            "version: 1\nrules:\n- {name: a, from: feedback, types: [comment]}",
            "acme.yaml:3:37: rules.0.types.0",
            "",
        ),
        (
            "version: 1\nrules:\n- {name: a, from: end, status: [idle], value: yes}",
            "acme.yaml:3:40: rules.0.value",
            "valid number",
        ),
        (
            "version: 1\nrules: [{name: a, from: reward}]\nstep: {penalties: {per_cost: 1}}",
            "acme.yaml:3:8: step.penalties",
            "",
        ),
        ("version: yes\nrules: [{name: a, from: reward}]", "acme.yaml:1:1: version", ""),
        ("version: 1\nruls: []", "acme.yaml:", "rules"),
        ("version: 1\nversion: 2", "acme.yaml:2:1", "occurs twice"),
    ],
)
def test_a_wrong_file_is_refused_with_line_and_column(text: str, place: str, reason: str) -> None:
    assert problem(text).startswith(f"not usable reward rules: {place}")
    assert reason in problem(text)


def test_the_identity_follows_the_content_and_not_the_comments() -> None:
    rules = parse_rules(ALL, where="a").identity
    assert parse_rules(f"# a remark\n{ALL}", where="b").identity == rules
    changed = ALL.replace("per_cost: 2", "per_cost: 3")
    assert parse_rules(changed, where="a").identity != rules
    assert rules.startswith("3-")
