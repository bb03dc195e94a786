"""The examples in a policy: they run as the gate does, and none fails without saying so."""

import itertools
from typing import Any

import pytest
import yaml

from atdp.governance import PolicyDocument, PolicyTestResult, parse_policy, run_policy_tests

BASE: dict[str, Any] = {
    "apiVersion": "atdp.governance/v1",
    "kind": "GovernancePolicy",
    "metadata": {"id": "small", "version": 1},
    "applies_to": {"tenants": ["acme"]},
    "entities": {
        "EMAIL_ADDRESS": {"do": "pseudonym"},
        "US_SSN": {"do": "drop_event"},
        "SECRET": {"do": "quarantine"},
        "BADGE": {"do": "surrogate"},
    },
    "patterns": [{"id": "badge", "entity": "BADGE", "pattern": "AC-[0-9]{4}"}],
    "keys": [{"entity": "SECRET", "names": ["password"]}],
    "fields": [{"path": "**", "do": "scan"}],
}


def run(*tests: dict[str, Any]) -> list[PolicyTestResult]:
    text = yaml.safe_dump({**BASE, "tests": list(tests)}, sort_keys=False)
    document = parse_policy(text, where="small.yaml")
    assert isinstance(document, PolicyDocument)
    return run_policy_tests(document, text)


def problems(**test: Any) -> str:
    test["in"] = test.pop("given")
    (result,) = run(test)
    return " / ".join(result.problems)


MAIL = {"text": "mail bob@corp.io about AC-1234 and W99"}


@pytest.mark.parametrize(
    "given",
    [
        MAIL,
        {"messages": [{"role": "system", "content": "Help."}, {"content": MAIL["text"]}]},
        {"tool_arguments": {"to": "bob@corp.io", "about": ["AC-1234", "W99"]}},
        {"tool_arguments": 'send(bob@corp.io, "AC-1234", W99)'},
        {"tool_result": {"bob@corp.io": {"badge": "AC-1234"}, "order": "W99"}},
        {
            "event": {
                "kind": "observation",
                "observation": {
                    "messages": [
                        {"role": "user", "parts": [{"type": "text", "text": MAIL["text"]}]}
                    ]
                },
            }
        },
    ],
)
def test_each_form_of_input_is_governed(given: dict[str, Any]) -> None:
    (result,) = run(
        {
            "in": given,
            "expect": "changed",
            "expect_absent": ["bob@corp.io", "AC-1234"],
            "expect_present": ["W99"],
            "expect_entities": ["EMAIL_ADDRESS", "BADGE"],
        }
    )
    assert result.problems == ()
    assert (result.passed, result.decision) == (True, "changed")


def test_a_value_that_is_still_there_is_named_by_its_place() -> None:
    found = problems(given=MAIL, expect_absent=["bob@corp.io", "W99"])
    assert found == "expect_absent[1] still stands at $.observation.messages[0].parts[0].text"
    nested = problems(given={"tool_result": {"a": [{"b": "W99"}]}}, expect_absent=["W99"])
    assert "$.outcome.message.parts[0].text#.a[0].b" in nested


def test_a_key_and_a_number_count_as_text() -> None:
    given = {"tool_result": {"order W99": 1234567}}
    assert "expect_absent[0]" in problems(given=given, expect_absent=["order W99"])
    assert "expect_absent[0]" in problems(given=given, expect_absent=[1234567])


def test_a_text_that_must_stay_and_an_entity_that_must_be_found_are_missed() -> None:
    found = problems(
        given=MAIL, expect_present=["bob@corp.io"], expect_entities=["EMAIL_ADDRESS", "US_SSN"]
    )
    assert "expect_present[0] stands nowhere" in found
    assert "US_SSN was not found; found: BADGE, EMAIL_ADDRESS" in found


@pytest.mark.parametrize(
    ("given", "decision", "entity"),
    [
        ({"text": "nothing here"}, "passed", None),
        (MAIL, "changed", "EMAIL_ADDRESS"),
        ({"text": "my SSN is 536-90-4399"}, "dropped", "US_SSN"),
        ({"tool_arguments": {"password": "hunter2-And-more"}}, "quarantined", "SECRET"),
    ],
)
def test_every_decision_can_be_expected_and_another_one_fails(
    given: dict[str, Any], decision: str, entity: str | None
) -> None:
    wanted = {} if entity is None else {"expect_entities": [entity]}
    assert problems(given=given, expect=decision, **wanted) == ""
    for other in {"passed", "changed", "quarantined", "dropped"} - {decision}:
        assert f"expected the event to be {other}" in problems(given=given, expect=other)


def test_an_event_that_does_not_pass_fails_an_example_about_absent_texts() -> None:
    found = problems(given={"text": "my SSN is 536-90-4399"}, expect_absent=["536-90-4399"])
    assert "the event was dropped" in found
    found = problems(
        given={"tool_arguments": {"password": "hunter2-And-more"}}, expect_absent=["x"]
    )
    assert "the event was quarantined (policy_quarantine" in found


def test_an_event_that_breaks_the_contract_is_no_passing_example() -> None:
    wrong = {"event": {"kind": "observation", "observation": {"messages": []}, "seq": -1}}
    assert "contract_violation" in problems(given=wrong, expect="passed")
    assert "in.event is no event" in problems(given={"event": {"kind": "x"}}, expect="passed")


def test_results_name_index_and_line_of_their_example() -> None:
    fail = {"in": MAIL, "expect": "passed"}
    results = run({"name": "first", "in": MAIL, "expect": "changed"}, fail)
    assert [result.passed for result in results] == [True, False]
    assert [result.index for result in results] == [0, 1]
    text = yaml.safe_dump(
        {**BASE, "tests": [{"name": "first", "in": MAIL, "expect": "changed"}, fail]},
        sort_keys=False,
    )
    lines = text.splitlines()
    starts = [number for number, line in enumerate(lines, 1) if line.startswith("- name: first")]
    starts += [number for number, line in enumerate(lines, 1) if line.startswith("- in:")]
    assert [result.line for result in results] == starts


def test_results_are_the_same_each_time_and_quote_no_text() -> None:
    tests = [
        {
            "in": MAIL,
            "expect": "passed",
            "expect_absent": ["W99"],
            "expect_present": ["bob@corp.io"],
        }
    ]
    assert run(*tests) == run(*tests)
    words = list(itertools.chain.from_iterable(result.problems for result in run(*tests)))
    assert not any(value in word for value in ("W99", "bob@corp.io", "AC-1234") for word in words)


def test_a_policy_without_examples_has_no_results() -> None:
    assert run() == []


def test_an_absent_text_that_the_event_never_had_checks_nothing_and_fails() -> None:
    found = problems(given=MAIL, expect_absent=["bob@corp.io", "bob@corp.org"])
    assert found == "expect_absent[1] does not stand in the event, so it checks nothing"
