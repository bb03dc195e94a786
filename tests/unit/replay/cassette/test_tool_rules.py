"""Two spellings of a call are one call only as far as a rule says so."""

import json

import pytest
from hypothesis import given, strategies as st
from tests.unit.replay.cassette.conversations import call

from atdp.replay.cassette.tool_rules import ToolRule, ToolRules
from atdp.schemas import ToolCall, canonical_json

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=4), JSON, max_size=4))
def test_the_order_of_keys_and_spaces_do_not_matter(arguments: dict[str, object]) -> None:
    written = ToolCall(call_id="1", name="find", arguments=canonical_json(arguments))
    spaced = json.dumps(arguments, indent=2)
    turned = ToolCall(call_id="2", name="find", arguments=spaced)
    reversed_keys = call("find", **dict(reversed(arguments.items())))
    rules = ToolRules()
    assert rules.canonical("acme", written) == rules.canonical("acme", turned)
    assert rules.canonical("acme", written) == rules.canonical("acme", reversed_keys)


@pytest.mark.parametrize(
    ("forms", "written", "other"),
    [
        (("strip", "lower"), " Rope ", "rope"),
        (("spaces",), "two  ropes", "two ropes"),
        (("digits",), "#W23", "23"),
        (("number",), "$1,200.50", "1200.5"),
        (("number",), "7.0", "7"),
        (("date",), "March 4, 2026", "2026-03-04"),
        (("date",), "2026-03-04T12:00:00Z", "4 March 2026"),
        (("sorted",), ["b", "a"], ["a", "b"]),
        (("lower", "sorted"), ["B", "a"], ["A", "b"]),
        (("ignore",), "a thought", "another one"),
    ],
)
def test_a_rule_makes_spellings_equal_and_the_exact_form_does_not(
    forms: tuple[str, ...], written: object, other: object
) -> None:
    rule = ToolRule.model_validate({"arguments": {"value": forms}})
    rules = ToolRules(rules={"find": rule})
    first, second = (rules.canonical("a", call("find", value=value)) for value in (written, other))
    assert first.normal == second.normal
    assert first.exact != second.exact


@pytest.mark.parametrize("text", ["3/4/2026", "next week", "", "99999999999999999999 March"])
def test_a_text_that_is_no_certain_date_stays_as_it_is(text: str) -> None:
    rules = ToolRules(rules={"find": ToolRule(arguments={"*": ("date",)})})
    canonical = rules.canonical("acme", call("find", day=text))
    assert canonical.normal == canonical.exact


def test_arguments_that_are_not_json_are_compared_as_text_and_never_equal_json() -> None:
    rules = ToolRules()
    text = ToolCall(call_id="1", name="find", arguments='{"q": ')
    custom = ToolCall(call_id="1", name="find", arguments='{"q":1}', tool_type="custom")
    assert rules.canonical("acme", text).exact == 'text:{"q": '
    assert rules.canonical("acme", custom).exact != rules.canonical("acme", call("find", q=1)).exact


def test_a_tool_writes_unless_a_rule_or_every_recorded_call_says_that_it_reads() -> None:
    rules = ToolRules(
        rules={"find": ToolRule(effect="read"), "peek": ToolRule(effect="write")},
        recorded_reads=frozenset({("acme", "peek"), ("acme", "look")}),
    )
    writes = {
        (tenant, tool): rules.canonical(tenant, call(tool)).writes
        for tenant in ("acme", "globex")
        for tool in ("find", "peek", "look", "order")
    }
    assert {key for key, value in writes.items() if not value} == {
        ("acme", "find"),
        ("globex", "find"),
        ("acme", "look"),
    }


def test_a_renamed_tool_and_argument_are_the_recorded_ones() -> None:
    rule = ToolRule(recorded_as="find", renamed={"product": "item"})
    rules = ToolRules(rules={"search": rule, "find": ToolRule(effect="read")})
    new, old = call("search", product="rope"), call("find", item="rope")
    assert rules.canonical("acme", new) == rules.canonical("acme", old)
