"""The order desk's reward is for the right total only."""

import json

import pytest
from hypothesis import given, strategies as st

from order_desk.customers import CustomerStream
from order_desk.episode import Episode, ToolRequest
from order_desk.order_task import ITEMS, MAX_TURNS, CustomerOrder, call_tool, judge

ORDER = CustomerOrder(task_id="t", item="rope", quantity=7, price=13, message="7 rope?")


def call(name: str, **arguments: object) -> ToolRequest:
    return ToolRequest(call_id="c", name=name, arguments=json.dumps(arguments))


def test_looking_up_and_multiplying_earns_the_reward() -> None:
    episode = Episode(ORDER)
    episode.reply(None, [call("lookup", item="rope")])
    assert episode.messages[-1]["content"] == "13"
    episode.reply(None, [call("calc", expression="7*13")])
    assert episode.messages[-1]["content"] == "91"
    episode.reply("91", [])
    assert episode.over
    assert episode.reward == 1.0


def test_a_wrong_total_earns_nothing() -> None:
    episode = Episode(ORDER)
    episode.reply("13", [])
    assert (episode.over, episode.reward) == (True, 0.0)


def test_an_episode_without_an_answer_is_cut_off_and_earns_nothing() -> None:
    episode = Episode(ORDER)
    for _ in range(MAX_TURNS):
        episode.reply(None, [call("lookup", item="rope")])
    assert episode.truncated
    assert episode.reward == 0.0
    with pytest.raises(ValueError, match="over"):
        episode.reply("91", [])


@given(st.text(), st.text())
def test_whatever_the_model_writes_a_tool_answers_in_text(name: str, arguments: str) -> None:
    assert call_tool(ORDER, name, arguments).text


@given(
    st.sampled_from(("lookup", "calc")),
    st.recursive(st.none() | st.integers() | st.text(), st.lists),
)
def test_arguments_of_any_shape_are_answered_too(name: str, arguments: object) -> None:
    assert call_tool(ORDER, name, json.dumps(arguments)).text


def test_the_price_of_another_item_is_not_the_price_of_this_one() -> None:
    others = [item for item in ITEMS if item != ORDER.item]
    assert all(
        call_tool(ORDER, "lookup", json.dumps({"item": item})).text != "13" for item in others
    )


@given(st.integers(0, 10_000))
def test_the_total_needs_the_price_which_no_message_holds(seed: int) -> None:
    order = CustomerStream("test", seed).next_order()
    assert judge(order, str(order.total)) == 1.0
    assert str(order.quantity) in order.message
    assert order.item in order.message
