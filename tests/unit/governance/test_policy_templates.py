"""The templates and the shipped rules: clean, tested, and taken as a policy says."""

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from atdp.governance import (
    PACK_NAMES,
    TEMPLATES,
    PolicyDocument,
    lint_policy,
    pack_text,
    parse_policy,
    policy_schema_text,
    run_policy_tests,
    template_text,
)
from atdp.governance.errors import PolicyError
from atdp.governance.policy import default_policy_text

ROOT = Path(__file__).parents[3]


def parsed(text: str) -> PolicyDocument:
    document = parse_policy(text, where="policy")
    assert isinstance(document, PolicyDocument)
    return document


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_template_is_clean_and_its_examples_pass(name: str) -> None:
    text = template_text(name)
    assert text.startswith("# yaml-language-server: $schema=policy.schema.json\n")
    assert lint_policy(text, name) == []
    results = run_policy_tests(parsed(text), text)
    assert results
    assert [result for result in results if not result.passed] == []


@pytest.mark.parametrize("name", sorted(set(TEMPLATES) - {"demo"}))
def test_only_the_demonstration_grants_anything_but_analytics(name: str) -> None:
    document = parsed(template_text(name))
    assert (document.purposes, document.consent.train) == (["analytics"], "unknown")


def test_a_policy_that_names_no_purpose_and_no_consent_allows_analytics_only() -> None:
    document = small()
    assert (document.purposes, document.consent.train) == (["analytics"], "unknown")
    default = parsed(default_policy_text())
    assert (default.purposes, default.consent.train) == (["analytics"], "unknown")


def test_an_unknown_template_is_refused() -> None:
    with pytest.raises(PolicyError, match="there are customer-service"):
        template_text("finance")


def test_the_demonstration_redacts_as_the_default_policy() -> None:
    demo, default = parsed(template_text("demo")), parsed(default_policy_text())
    same = ("entities", "patterns", "keys", "fields", "ner", "learn", "phone_regions", "limits")
    assert {name: getattr(demo, name) for name in same} == {
        name: getattr(default, name) for name in same
    }


def test_shipped_rules_never_change_under_their_name() -> None:
    """Otherwise the hashes of policies that include them would change with the software."""
    rules = {name: yaml.safe_load(pack_text(name)) for name in PACK_NAMES}
    digests = {
        name: hashlib.sha256(repr(value).encode()).hexdigest()[:16] for name, value in rules.items()
    }
    assert digests == {"everyday-1": "c65d0e936de6ec58"}


PAGE = (ROOT / "docs/reference/policy-file.md").read_text(encoding="utf-8")


def test_the_reference_names_every_key_of_a_policy() -> None:
    section = PAGE.partition("## Keys")[2].partition("\n## ")[0]
    named = {name for row in section.splitlines() for name in re.findall(r"`(\w+)`", row[:40])}
    assert set(PolicyDocument.model_fields) <= named


def test_whole_policies_of_the_reference_are_clean_and_their_examples_pass() -> None:
    blocks = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    whole = [block for block in blocks if block.startswith("apiVersion")]
    assert [yaml.safe_load(block)["kind"] for block in whole] == [
        "GovernancePolicy",
        "AccessPolicy",
    ]
    for block in whole:
        assert lint_policy(block, "reference") == []
    results = run_policy_tests(parsed(whole[0]), whole[0])
    assert [result.passed for result in results] == [True, True]


def test_the_schema_takes_templates_and_refuses_what_parsing_refuses() -> None:
    schema = json.loads(policy_schema_text())
    validate = Draft202012Validator(schema).is_valid
    for name in TEMPLATES:
        assert validate(yaml.safe_load(template_text(name)))
    policy = yaml.safe_load(template_text("none"))
    assert not validate({**policy, "purpose": ["train"]})
    assert not validate({**policy, "purposes": ["sell"]})
    assert not validate({**policy, "entities": {"email": {"do": "mask"}}})
    assert not validate({**policy, "tests": [{"expect": "passed"}]})


BASE: dict[str, Any] = {
    "apiVersion": "atdp.governance/v1",
    "kind": "GovernancePolicy",
    "metadata": {"id": "small", "version": 1},
    "applies_to": {"tenants": ["acme"]},
    "include": ["everyday-1"],
    "entities": {"POSTAL_CODE": {"do": "replace"}, "CITY": {"do": "replace"}},
    "fields": [{"path": "**", "do": "scan"}],
}


def small(**changes: Any) -> PolicyDocument:
    return parsed(yaml.safe_dump({**BASE, **changes}))


def test_included_rules_are_those_of_the_declared_entities() -> None:
    document = small()
    assert {rule.entity for rule in document.patterns} == {"POSTAL_CODE"}
    assert {rule.entity for rule in document.keys} == {"POSTAL_CODE", "CITY"}
    assert small(include=[]).patterns == []


def test_own_rules_take_the_place_of_shipped_ones() -> None:
    own = {"id": "zip", "entity": "POSTAL_CODE", "pattern": "Z[0-9]{5}"}
    document = small(patterns=[own], keys=[{"entity": "POSTAL_CODE", "names": ["town"]}])
    assert [rule.pattern for rule in document.patterns if rule.id == "zip"] == ["Z[0-9]{5}"]
    (city,) = [rule for rule in document.keys if rule.entity == "CITY"]
    assert "city" in city.names
    assert "town" not in city.names


def test_a_policy_that_holds_its_included_rules_already_stays_the_same() -> None:
    document = small(tests=[{"in": {"text": "a"}, "expect": "passed"}])
    again = PolicyDocument.model_validate(document.model_dump(mode="json"))
    assert again == document
    assert again.content_hash == document.content_hash


def test_a_copy_of_a_shipped_pattern_is_taken_and_a_changed_one_is_not() -> None:
    (shipped,) = [rule for rule in small().patterns if rule.id == "zip-named"]
    copy = {**shipped.model_dump(), "id": "copy"}
    assert small(include=[], patterns=[copy]).patterns[0].syntax == "regex"
    with pytest.raises(PolicyError, match="syntax re2"):
        small(include=[], patterns=[{**copy, "pattern": copy["pattern"] + "?"}])


def test_what_equals_its_default_does_not_change_the_hash() -> None:
    plain = small()
    assert (
        small(tests=[], retention={}, limits={"json_depth": 8}).content_hash == plain.content_hash
    )
    assert small(retention={"default": 30}).content_hash != plain.content_hash
