"""Texts without personal data pass governance unchanged, so that agents can learn from them."""

import json
from pathlib import Path

from atdp.governance.walk.string_governor import StringGovernor
from order_desk.customers import CustomerStream
from order_desk.order_task import ITEMS, PRICES, QUANTITIES, CustomerOrder, call_tool

TEXTS = Path(__file__).with_name("impersonal_texts.txt").read_text(encoding="utf-8").splitlines()
MOST_CHANGED = 0.02


def changed(strings: StringGovernor, texts: list[str]) -> list[str]:
    return [text for text in texts if strings.text(text, "t").text != text]


def test_few_texts_of_shops_programs_and_support_are_changed(strings: StringGovernor) -> None:
    """The texts are written by hand. Training has templates of their kinds, not the texts."""
    assert len(TEXTS) >= 200
    wrong = changed(strings, TEXTS)
    assert len(wrong) <= MOST_CHANGED * len(TEXTS), wrong


def test_no_text_of_the_order_desk_is_changed(strings: StringGovernor) -> None:
    questions = [f"{quantity} {item}?" for quantity in range(1, 10) for item in ITEMS]
    order = CustomerOrder(task_id="t", item="rope", quantity=3, price=7, message="3 rope?")
    calls = [
        ("lookup", '{"item": "rope"}'), ("lookup", '{"item": "soup"}'), ("other", "{}"),
        ("calc", '{"expression": "3*7"}'), ("calc", '{"expression": "3+7"}'), ("calc", "3*7"),
    ]  # fmt: skip
    replies = [call_tool(order, name, arguments).text for name, arguments in calls]
    answers = [str(quantity * price) for quantity in QUANTITIES for price in PRICES]
    lookups = [json.dumps({"item": item}) for item in ITEMS]
    texts = [*questions, *(arguments for _, arguments in calls), *replies, *answers, *lookups]
    assert changed(strings, texts) == []


def test_of_a_customers_message_only_the_personal_value_is_changed(strings: StringGovernor) -> None:
    customers = CustomerStream(name="t", seed=1, personal_share=1.0)
    for order in customers.orders(40):
        text = f"{order.message} {order.thanks or ''}"
        (value,) = (each.value for each in customers.planted if each.value in text)
        before, _, behind = text.partition(value)
        governed = strings.text(text, "t").text or ""
        assert value not in governed
        assert governed.startswith(before)
        assert governed.endswith(behind)


def test_no_text_of_the_order_desk_is_changed_in_a_chat_template(strings: StringGovernor) -> None:
    """Token ids are decoded with the marks of the template, and governed so."""
    turns = [
        f"<|im_start|>user\n{quantity} {item}?<|im_end|><|im_start|>assistant\n<tool_call>\n"
        f'{{"name": "lookup", "arguments": {{"item": "{item}"}}}}\n</tool_call><|im_end|>'
        f"<|im_start|>tool\n{price}<|im_end|><|im_start|>assistant\n"
        for item in ITEMS
        for quantity in QUANTITIES
        for price in PRICES[::9]
    ]
    answers = [
        f"{quantity * price}{mark}"
        for quantity in QUANTITIES
        for price in PRICES
        for mark in ("<|im_end|>", "</s>")
    ]
    assert changed(strings, [*turns, *answers]) == []
