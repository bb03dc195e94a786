"""The linter: all problems of a policy text at once, each with its place."""

import copy
import functools
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from atdp.governance import LintProblem, PolicyDocument, lint_policy, parse_policy
from atdp.governance.errors import PolicyError
from atdp.governance.policy import compile_policy

GOOD = """\
apiVersion: atdp.governance/v1
kind: GovernancePolicy
metadata: {id: acme, version: 3}
applies_to: {tenants: [acme]}
purposes: [analytics]
entities:
  EMAIL_ADDRESS: {do: pseudonym}
  CODE: {do: replace}
patterns:
  - id: code
    entity: CODE
    pattern: 'AC-[0-9]{4}'
keys:
  - {entity: CODE, names: [badge]}
fields:
  - {path: metadata_json, do: drop_field}
  - {path: "**", do: scan}
"""


def lint(text: str) -> list[LintProblem]:
    return lint_policy(text, "acme.yaml")


def the_one(text: str) -> LintProblem:
    problems = lint(text)
    assert len(problems) == 1, problems
    return problems[0]


def test_a_good_policy_has_no_problems() -> None:
    assert lint(GOOD) == []


@pytest.mark.parametrize(
    ("before", "after", "place", "words"),
    [
        ("kind: GovernancePolicy", "kind: [", (4, 1), "not valid YAML"),
        ("kind: GovernancePolicy", "kind: GovernmentPolicy", (2, 1), "must be a GovernancePolicy"),
        ("purposes: [analytics]", "purpose: [analytics]", (5, 1), "did you mean purposes?"),
        ("do: pseudonym", "do: hash, scop: tenant", (7, 29), "did you mean scope?"),
        ("names: [badge]", "name: [badge]", (14, 20), "did you mean names?"),
        ("purposes: [analytics]", "purposes: [analysis]", (5, 12), "'analytics'"),
        ("do: pseudonym", "do: encrypt", (7, 19), "surrogate"),
        ("    entity: CODE", "    entity: CODES", (11, 5), "did you mean CODE?"),
        ("{entity: CODE,", "{entity: COD,", (14, 6), "did you mean CODE?"),
        ("EMAIL_ADDRESS:", "EMAIL_ADRESS:", (7, 3), "did you mean EMAIL_ADDRESS?"),
        ("path: metadata_json", "path: outcome.mesage", (16, 6), "did you mean outcome.message?"),
        ("AC-[0-9]{4}", "(?<=x)AC-[0-9]{4}", (12, 5), "no look-around"),
        ("AC-[0-9]{4}", "AC-[0-9", (12, 5), "missing ]"),
        ("AC-[0-9]{4}", "A(?:.*C)?", (12, 5), "takes too long"),
        (
            "    entity: CODE",
            "    score: 0.1\n    entity: CODE",
            (11, 5),
            "no finding of the pattern",
        ),
        ("    entity: CODE", "    syntax: regex\n    entity: CODE", (11, 5), "syntax re2"),
        ("do: pseudonym", "do: pseudonym, keep_last: 4", (7, 34), "operator mask"),
        ("do: pseudonym", "do: pseudonym, numbers: find", (7, 34), "no form of EMAIL_ADDRESS"),
        ("names: [badge]", 'names: ["--"]', (14, 5), "no letter or digit"),
        ("metadata_json, do", "event_id, do", (15, 1), "has no owner"),
        ('  - {path: "**", do: scan}\n', "", (16, 5), "catch-all"),
        ("version: 3", "version: 0", (3, 22), "greater than or equal to 1"),
        ("purposes: [analytics]", "min_recall: {CODE: 0.9}", (1, 1), "needs evaluation"),
        ("purposes: [analytics]", "tests: [{in: {text: a}}]", (5, 9), "expects nothing"),
        (
            "purposes: [analytics]",
            "tests: [{in: {text: a, event: {}}, expect: passed}]",
            (5, 10),
            "exactly one",
        ),
        ("purposes: [analytics]", "retention: {default: 0}", (5, 13), "greater than 0"),
    ],
)
def test_a_problem_is_shown_at_its_place(
    before: str, after: str, place: tuple[int, int], words: str
) -> None:
    assert before in GOOD
    problem = the_one(GOOD.replace(before, after, 1))
    assert words in problem.message
    assert (problem.level, problem.line, problem.column) == ("error", *place)


def test_an_entity_without_phone_numbers_does_not_hide_a_bad_region() -> None:
    text = GOOD.replace("  CODE: {do", "  PHONE_NUMBER: {do: replace}\n  CODE: {do", 1)
    problem = the_one(text.replace("purposes: [analytics]", "phone_regions: [UK]"))
    assert "phone regions ['UK']" in problem.message


def test_all_problems_are_shown_in_one_go_and_in_their_order() -> None:
    text = (
        GOOD.replace("purposes: [analytics]", "purpose: [analytics]")
        .replace("do: pseudonym", "do: encrypt")
        .replace("AC-[0-9]{4}", "AC-(")
        .replace("metadata_json", "metadata")
        .replace("{entity: CODE,", "{entity: COLOUR,")
    )
    problems = lint(text)
    assert [problem.line for problem in problems] == [5, 7, 12, 14, 16]
    assert {problem.level for problem in problems} == {"error"}


def test_a_score_that_no_recognizer_gives_is_an_error() -> None:
    problem = the_one(
        GOOD.replace("  CODE: {do", "  US_PASSPORT: {do: replace, min_score: 0.9}\n  CODE: {do", 1)
    )
    assert "no finding of US_PASSPORT counts" in problem.message
    assert problem.line == 8


def test_letters_beyond_ascii_are_mentioned_where_a_pattern_uses_the_ascii_class() -> None:
    problem = the_one(GOOD.replace("AC-[0-9]{4}", r"badge \w{4}"))
    assert problem.level == "warning"
    assert r"[\pL\pN_]" in problem.message
    assert lint(GOOD.replace("AC-[0-9]{4}", r"badge \\w{4}")) == []


def places(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    if path:
        yield path
    if isinstance(value, dict):
        for key, item in value.items():
            yield from places(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from places(item, (*path, index))


WHOLE = yaml.safe_load(GOOD) | {
    "include": ["everyday-1"],
    "learn": {"entities": ["CODE"]},
    "limits": {"json_depth": 4},
    "tests": [{"in": {"text": "a"}, "expect": "passed"}],
    "phone_regions": ["US"],
    "retention": {"default": 30},
}


@pytest.mark.parametrize("place", list(places(WHOLE)), ids=str)
@pytest.mark.parametrize(
    "wrong", [None, [], {}, -1, True, "\u2028x", [[1]], {"a": [None]}], ids=repr
)
def test_a_wrong_value_anywhere_is_an_error_or_gives_a_policy(
    place: tuple[str | int, ...], wrong: object
) -> None:
    policy = copy.deepcopy(WHOLE)
    parent = functools.reduce(lambda value, key: value[key], place[:-1], policy)
    parent[place[-1]] = wrong
    text = yaml.safe_dump(policy, sort_keys=False)
    problems = lint(text)
    assert all(0 < problem.line <= text.count("\n") + 1 for problem in problems)
    if not any(problem.level == "error" for problem in problems):
        document = parse_policy(text, where="acme.yaml")
        assert isinstance(document, PolicyDocument)
        compile_policy(document)


@pytest.mark.parametrize("text", ["", "- a\n", "kind: Consent", "a: b: c", "\x00", "&a [*a]"])
def test_a_text_that_is_no_policy_is_one_error(text: str) -> None:
    assert the_one(text).level == "error"


def test_what_the_linter_takes_can_be_compiled_and_what_it_refuses_cannot() -> None:
    document = parse_policy(GOOD, where="acme.yaml")
    assert isinstance(document, PolicyDocument)
    compile_policy(document)
    with pytest.raises(PolicyError, match=r"acme\.yaml:12:5: patterns\.0\.pattern: .*RE2"):
        parse_policy(GOOD.replace("AC-[0-9]{4}", "AC-("), where="acme.yaml")


ACCESS = """\
apiVersion: atdp.governance/v1
kind: AccessPolicy
metadata: {id: acme-access, version: 1}
applies_to: {tenants: [acme]}
cedar: |
  forbid (principal, action == Action::"train", resource)
  when { resource.classification == "restricted" };
tests:
  - {principal: "trainer:acme", action: train, expect: allow}
"""


@pytest.mark.parametrize(
    ("before", "after", "line", "words"),
    [
        ("cedar:", "cedr:", 5, "did you mean cedar?"),
        ("resource.classification", "resource.colour", 6, "colour"),
        ("when {", "when", 7, ""),
        ("expect: allow", "expect: deny", 1, "test 1"),
    ],
)
def test_an_access_policy_is_checked_with_its_rules_and_requests(
    before: str, after: str, line: int, words: str
) -> None:
    assert lint(ACCESS) == []
    problems = lint(ACCESS.replace(before, after))
    assert [problem.level for problem in problems] == ["error"] * len(problems)
    assert any(problem.line == line and words in problem.message for problem in problems)


def test_a_text_that_is_too_long_is_said_to_be_too_long() -> None:
    [problem] = lint_policy("# " + "a" * 4_000_000, "acme.yaml")
    assert problem.message == "longer than 4000000 characters"
