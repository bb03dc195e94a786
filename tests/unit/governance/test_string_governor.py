"""Governed strings: stable after one pass, still JSON in their style, refused where unreadable."""

import json
import re

import pytest
from hypothesis import given, settings, strategies as st

from atdp.governance.errors import Refusal
from atdp.governance.policy import CompiledPolicy, PolicyDocument
from atdp.governance.redact.pseudonyms import is_pseudonym
from atdp.governance.walk.string_governor import StringGovernor

from .governors import KEY, governor_of, with_entities

KEYS = st.sampled_from(["zip", "email", "note", "a@b.org", "password"])
JSON = st.recursive(
    st.text(max_size=12) | st.integers() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
).map(json.dumps)


@settings(max_examples=150)
@given(st.text(max_size=80) | JSON)
def test_any_string_is_stable_after_one_pass(default_policy: CompiledPolicy, text: str) -> None:
    once = StringGovernor(default_policy, KEY).text(text, "t").text
    assert once is not None
    assert StringGovernor(default_policy, KEY).text(once, "t").text == once


def test_json_stays_json_with_its_keys_types_and_style(strings: StringGovernor) -> None:
    texts = [
        '{"zip": "19122", "n": [1, 2.50, true, null], "order": "#W123"}',
        '{"zip":"19122","n":1}',
        '{\n  "zip": "19122",\n  "n": 1\n}',
    ]
    for text in texts:
        governed = strings.text(text, "t").text
        assert governed is not None
        before, after = json.loads(text), json.loads(governed)
        assert is_pseudonym(after.pop("zip"))
        before.pop("zip")
        assert list(after.items()) == list(before.items())
        assert re.sub(r"<[^>]+>", "19122", governed).replace("2.5,", "2.50,") == text


def test_text_without_findings_is_returned_as_it_was_to_the_last_blank(
    strings: StringGovernor,
) -> None:
    text = '{ "n" : 1.0 ,\n "m":[ 1e3 ] }'
    assert strings.text(text, "t").text == text


def test_two_keys_that_become_one_are_both_kept(default_document: PolicyDocument) -> None:
    policy = with_entities(default_document, EMAIL_ADDRESS={"do": "replace"})
    governed = governor_of(policy).strings.text('{"a@x.org": 1, "b@x.org": 2}', "t").text
    assert json.loads(governed or "") == {"<EMAIL_ADDRESS>": 1, "<EMAIL_ADDRESS>#2": 2}


def test_a_number_under_a_key_with_a_rule_and_a_card_number_as_number_are_redacted(
    strings: StringGovernor,
) -> None:
    governed = json.loads(
        strings.text('{"zip": 19122, "card": 4111111111111111, "count": 12345}', "t").text or ""
    )
    assert is_pseudonym(governed["zip"])
    assert is_pseudonym(governed["card"])
    assert governed["count"] == 12345


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"a": "\\ud800"}', "lone_surrogate"),
        ("[" * 5_000 + "]" * 5_000, "json_depth"),
        ("[" * 100_000, "json_depth"),
        ("x" * 400_001, "leaf_too_long"),
    ],
)
def test_what_cannot_be_read_safely_is_refused(
    strings: StringGovernor, text: str, reason: str
) -> None:
    with pytest.raises(Refusal) as refusal:
        strings.text(text, "t")
    assert refusal.value.reason == reason


def test_json_deeper_than_the_policy_allows_is_refused(strings: StringGovernor) -> None:
    text = '"x@y.org"'
    for _ in range(9):
        text = json.dumps([text])
    with pytest.raises(Refusal, match="json_depth"):
        strings.text(text, "t")
