"""The policy file: its content, what is refused, and the moment at which a change is noticed."""

from typing import Any

import pytest
import yaml

from atdp.governance.errors import PolicyError
from atdp.governance.policy import (
    PolicyDocument,
    compile_policy,
    parse_policy,
)

SMALL: dict[str, Any] = {
    "apiVersion": "atdp.governance/v1",
    "kind": "GovernancePolicy",
    "metadata": {"id": "small", "version": 1},
    "applies_to": {"tenants": ["acme"]},
    "consent": {"train": "granted"},
    "entities": {"EMAIL_ADDRESS": {"do": "pseudonym"}, "CODE": {"do": "replace"}},
    "patterns": [{"id": "code", "entity": "CODE", "pattern": r"AC-\d{4}"}],
    "fields": [{"path": "**", "do": "scan"}],
}


def text(**changes: Any) -> str:
    return yaml.safe_dump({**SMALL, **changes})


def refused(**changes: Any) -> str:
    def load() -> None:
        document = parse_policy(text(**changes), where="small.yaml")
        assert isinstance(document, PolicyDocument)
        compile_policy(document)

    with pytest.raises(PolicyError) as error:
        load()
    return str(error.value)


def test_an_entity_that_nothing_finds_is_refused() -> None:
    assert "no recognizer finds FAVOURITE_COLOUR" in refused(
        entities={**SMALL["entities"], "FAVOURITE_COLOUR": {"do": "replace"}}
    )


def test_an_unknown_operator_is_refused_by_name_of_the_field() -> None:
    assert "entities.EMAIL_ADDRESS.do" in refused(
        entities={**SMALL["entities"], "EMAIL_ADDRESS": {"do": "encrypt"}}
    )


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("(", "not a pattern of RE2"),
        ("a*", "matches the empty text"),
        (r"AC-(?:.*;)?", "takes too long"),
    ],
)
def test_a_bad_pattern_is_refused(pattern: str, problem: str) -> None:
    assert problem in refused(patterns=[{"id": "code", "entity": "CODE", "pattern": pattern}])


@pytest.mark.parametrize(
    "fields", [[], [{"path": "ext_json", "do": "scan"}], [{"path": "**", "do": "drop_field"}]]
)
def test_a_policy_without_a_catch_all_is_refused(fields: list[dict[str, str]]) -> None:
    assert "fields" in refused(fields=fields) or "catch-all" in refused(fields=fields)


def test_a_rule_that_would_drop_the_identity_of_events_is_refused() -> None:
    rules = [{"path": "trajectory_*", "do": "drop_field"}, {"path": "**", "do": "scan"}]
    assert "has no owner" in refused(fields=rules)


def test_a_misspelt_key_and_a_repeated_key_are_refused() -> None:
    assert "entites" in refused(entites={})
    with pytest.raises(PolicyError, match="occurs twice"):
        parse_policy(text() + "\nconsent: {train: withdrawn}\n", where="small.yaml")


def test_an_undeclared_entity_of_a_pattern_or_key_is_refused() -> None:
    assert "ZIP" in refused(keys=[{"entity": "ZIP", "names": ["zip"]}])


def test_a_key_with_two_entities_is_refused() -> None:
    keys = [
        {"entity": "CODE", "names": ["zip_code"]},
        {"entity": "EMAIL_ADDRESS", "names": ["zipCode"]},
    ]
    assert "both CODE and EMAIL_ADDRESS" in refused(keys=keys)


def test_the_hash_is_of_the_content_not_of_the_spelling() -> None:
    def of(source: str) -> str:
        document = parse_policy(source, where="x")
        assert isinstance(document, PolicyDocument)
        return document.content_hash

    assert of(text()) == of("# a comment\n" + yaml.safe_dump(SMALL, sort_keys=False))
    assert of(text()) != of(text(metadata={"id": "small", "version": 2}))
