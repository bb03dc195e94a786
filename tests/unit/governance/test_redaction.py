"""Redaction operators and pseudonyms."""

import re
import subprocess
import sys

import pytest
from hypothesis import given, strategies as st

from atdp.governance.errors import EventDropped, Refusal
from atdp.governance.redact.operators import OperatorName, RedactionOperator, masked
from atdp.governance.redact.pseudonyms import TenantKey, is_pseudonym, normalised

KEY = TenantKey(b"k" * 32)


@given(st.text())
def test_a_pseudonym_is_recognised_has_no_number_in_it_and_depends_on_the_key(value: str) -> None:
    name = KEY.pseudonym("EMAIL_ADDRESS", value)
    assert is_pseudonym(name)
    assert re.search(r"[0-9]{4}", name) is None
    assert name == KEY.pseudonym("EMAIL_ADDRESS", value)
    assert name != TenantKey(b"j" * 32).pseudonym("EMAIL_ADDRESS", value)
    assert name != KEY.pseudonym("PHONE_NUMBER", value)
    assert name != KEY.pseudonym("EMAIL_ADDRESS", value, scope="t1")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Bob@X.org", "bob@x.org "),
        ("4111 1111 1111 1111", "4111-1111-1111-1111"),
        ("Ａ", "a"),
        ("1 Elm  St", "1 elm st"),
    ],
)
def test_two_spellings_of_one_value_have_one_pseudonym(one: str, other: str) -> None:
    assert normalised(one) == normalised(other)


def test_a_shape_with_a_number_inside_is_no_pseudonym() -> None:
    assert not is_pseudonym("<ZIP_ab12345cde>")
    assert not is_pseudonym("x <ZIP_ab123cdefa>")
    assert is_pseudonym("<ZIP_ab123cdefa>")


def test_another_process_gives_the_same_pseudonym() -> None:
    code = (
        "from atdp.governance.redact.pseudonyms import TenantKey\n"
        "print(TenantKey(b'k'*32).pseudonym('A', 'v'))"
    )
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert out.strip() == KEY.pseudonym("A", "v")


@given(st.text(), st.integers(min_value=0, max_value=8))
def test_masking_twice_is_masking_once_and_keeps_at_most_half(value: str, keep_last: int) -> None:
    once = masked(value, keep_last)
    assert masked(once, keep_last) == once
    assert len(once) == len(value)
    kept = sum(character.isalnum() for character in once)
    assert kept <= keep_last
    assert kept * 2 <= sum(character.isalnum() or character == "*" for character in value)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("replace", "<CARD>"), ("mask", "**** **** **** 1111"), ("drop_field", None)],
)
def test_each_operator_writes_its_text(name: OperatorName, expected: str | None) -> None:
    assert (
        RedactionOperator(name, keep_last=4).apply("CARD", "4111 1111 1111 1111", KEY, "t")
        == expected
    )


def test_hash_is_longer_than_a_pseudonym_and_scope_follows_the_trajectory() -> None:
    assert len(RedactionOperator("hash").apply("A", "v", KEY, "t") or "") == len("<A_>") + 20
    scoped = RedactionOperator("pseudonym", "trajectory")
    assert scoped.apply("A", "v", KEY, "t1") != scoped.apply("A", "v", KEY, "t2")
    assert RedactionOperator("pseudonym").apply("A", "v", KEY, "t1") == RedactionOperator(
        "pseudonym"
    ).apply("A", "v", KEY, "t2")


def test_drop_event_and_quarantine_decide_about_the_whole_event() -> None:
    with pytest.raises(EventDropped):
        RedactionOperator("drop_event").apply("A", "v", KEY, "t")
    with pytest.raises(Refusal, match="policy_quarantine"):
        RedactionOperator("quarantine").apply("A", "v", KEY, "t")
