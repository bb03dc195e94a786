"""The policy file: its content, what is refused, and the moment at which a change is noticed."""

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from atdp.governance.errors import PolicyError
from atdp.governance.policy import (
    PolicyDocument,
    PolicyStore,
    compile_policy,
    install_default_policy,
    parse_policy,
    set_consent,
)
from atdp.governance.policy.store import default_policy_text

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
        ("(", "does not compile"),
        ("a*", "matches the empty text"),
        (r"(?:[a-z]+)+[;,]", "takes too long"),
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


def test_a_named_tenant_takes_its_own_policy_and_others_take_the_default(tmp_path: Path) -> None:
    folder = tmp_path / "policies"
    install_default_policy(folder)
    (folder / "small.yaml").write_text(text())
    store = PolicyStore(folder)
    assert store.refresh()
    chosen = [store.policy_for(tenant) for tenant in ("acme", "globex")]
    assert [policy.id for policy in chosen if policy] == ["small", "default"]
    assert not store.refresh()


def test_without_a_policy_for_all_an_unnamed_tenant_has_none(tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(text())
    store = PolicyStore(tmp_path)
    store.refresh()
    assert store.policy_for("globex") is None


def test_a_change_is_seen_even_with_the_same_size_and_time(tmp_path: Path) -> None:
    file = tmp_path / "small.yaml"
    file.write_text(text())
    store = PolicyStore(tmp_path)
    store.refresh()
    stat = file.stat()
    file.write_text(text(metadata={"id": "small", "version": 2}))
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert store.refresh()
    policy = store.policy_for("acme")
    assert policy is not None
    assert policy.version == 2


@pytest.mark.parametrize("broken", ["{", "kind: Other", "\xff", "[]"])
def test_a_broken_file_leaves_no_policy_at_all(tmp_path: Path, broken: str) -> None:
    (tmp_path / "small.yaml").write_text(text())
    store = PolicyStore(tmp_path)
    store.refresh()
    (tmp_path / "other.yaml").write_text(broken, "latin-1")
    for _ in range(2):
        with pytest.raises(PolicyError, match=r"other\.yaml"):
            store.refresh()
        assert store.policy_for("acme") is None
    (tmp_path / "other.yaml").unlink()
    assert store.refresh()
    assert store.policy_for("acme") is not None


def test_two_policies_for_one_tenant_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(text())
    (tmp_path / "b.yaml").write_text(text(metadata={"id": "other", "version": 1}))
    with pytest.raises(PolicyError, match="both apply to tenant 'acme'"):
        PolicyStore(tmp_path).refresh()


def test_setting_consent_adds_to_the_register_and_keeps_the_default_policy(tmp_path: Path) -> None:
    folder = tmp_path / "policies"
    set_consent(folder, "acme", train="withdrawn")
    set_consent(folder, "globex", train="granted")
    assert (folder / "default.yaml").read_text() == default_policy_text()
    store = PolicyStore(folder)
    store.refresh()
    consents = [store.terms_of(tenant).consent for tenant in ("acme", "globex", "initech")]
    assert [consent and consent.train for consent in consents] == ["withdrawn", "granted", None]
    with pytest.raises(PolicyError, match="maybe"):
        set_consent(folder, "acme", train="maybe")
