"""Names of persons in short values under keys, which are no sentences."""

import functools
import json
from typing import Any

import pytest
from tests.unit.governance.governors import governor_of, without_names

from atdp.governance.policy import PolicyDocument, compile_policy, parse_policy
from atdp.governance.policy.default_policy import default_policy_text
from atdp.governance.tenant_governor import TenantGovernor

_NAME = "Zbigniew Kowalski"


@functools.cache
def _document() -> PolicyDocument:
    document = parse_policy(default_policy_text(), where="default policy")
    assert isinstance(document, PolicyDocument)
    return document


@functools.cache
def _governor() -> TenantGovernor:
    return governor_of(compile_policy(_document()))


def _governed(value: Any) -> Any:
    return json.loads(_governor().strings.text(json.dumps(value), "t").text or "null")


@pytest.mark.parametrize(
    "key", ["passenger", "customer", "signed_by", "createdBy", "to", "emergency_contact", "payee"]
)
def test_a_name_under_the_role_of_a_person_is_replaced_as_a_whole(key: str) -> None:
    for name in (_NAME, "KIRA LOVELACE", "wei zhang", "Lovelace, Kira", "J. K. Rowling", "Mary"):
        governed = _governed({key: name, "status": "open"})
        assert governed["status"] == "open"
        assert not set(governed[key].split()) & set(name.split()), name


def test_names_in_lists_and_parts_of_a_name_are_replaced() -> None:
    governed = _governed({"attendees": ["Anna Schmidt", "Wei Zhang"], "n": 2})
    assert len(governed["attendees"]) == 2
    assert not {"Anna", "Schmidt", "Wei", "Zhang"} & set(" ".join(governed["attendees"]).split())
    patient = _governed({"name": [{"family": "Chalmers", "given": ["Peter", "James"]}]})
    assert not {"Chalmers", "Peter", "James"} & set(json.dumps(patient).replace('"', " ").split())


@pytest.mark.parametrize("value", ["platform", "JFK", "New York", "postgres", "enterprise", "none"])
def test_what_is_no_name_stays_under_a_role(value: str) -> None:
    for key in ("owner", "customer", "host", "to"):
        assert _governed({key: value}) == {key: value}


def test_under_other_keys_only_certain_whole_names_are_replaced() -> None:
    things = {"name": "Smart Thermostat", "title": "Water Bottle", "model": "Jackson Five"}
    assert _governed(things) == things
    assert _NAME not in json.dumps(_governed({"name": _NAME}))
    assert _NAME not in json.dumps(_governed({"columns": ["name"], "rows": [[_NAME, 3]]}))


def test_a_name_in_free_text_of_few_words_is_replaced() -> None:
    governed = _governed({"note": "Call Kira Lovelace back", "q": "kira lovelace"})
    assert governed["note"].startswith("Call ")
    assert governed["note"].endswith(" back")
    assert "lovelace" not in json.dumps(governed).lower()


def test_a_name_that_is_a_key_is_replaced() -> None:
    governed = _governed({_NAME: 3, "Total Amount": 5, "first_name": "Kira"})
    assert _NAME not in governed
    assert [*governed][1:] == ["Total Amount", "first_name"]


def test_a_family_of_things_is_no_role_and_a_small_word_behind_by_no_name() -> None:
    things = {"font_family": "Georgia", "by": "price", "with": "cheese"}
    assert _governed(things) == things


def test_governing_again_changes_nothing() -> None:
    governed = _governed({"passenger": _NAME, "attendees": ["Anna Schmidt"]})
    assert _governed(governed) == governed


def test_without_the_model_of_names_they_stay() -> None:
    plain = governor_of(compile_policy(without_names(_document())))
    text = json.dumps({"passenger": _NAME})
    assert plain.strings.text(text, "t").text == text


def test_roles_need_the_model_and_the_entity_of_persons() -> None:
    data = _document().model_dump(mode="json")
    with pytest.raises(ValueError, match="keys with roles need ner"):
        PolicyDocument.model_validate({**data, "ner": None})
    rule = {"entity": "CITY", "roles": ["hometown"]}
    with pytest.raises(ValueError, match="the key rule of CITY has roles"):
        PolicyDocument.model_validate({**data, "keys": [*data["keys"], rule]})
