"""Logs of the clerks from whom the model learns first. The clerks are deliberately mediocre.

A quarter of their conversations are right. In more than half they skip the look-up and guess a
price; the rest holds other mistakes. A model that imitates them answers about one customer in four
and knows the form of every tool call. Reinforcement learning has to find that the look-up pays.

The logs hold text only (no token ids, no log-probabilities), as logs of a foreign model would.
"""

import json
import random
from dataclasses import dataclass
from typing import Literal

from order_desk.order_task import ITEMS, PRICES, QUANTITIES, CustomerOrder, call_tool, judge

Habit = Literal["right", "guess", "price_as_total", "wrong_quantity", "wrong_item", "blind"]

HABITS: dict[Habit, int] = {
    "right": 25,
    "guess": 55,
    "price_as_total": 5,
    "wrong_quantity": 5,
    "wrong_item": 5,
    "blind": 5,
}
"""The clerks' habits and their shares in percent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedCall:
    """A tool call and its reply."""

    name: str
    arguments: str
    reply: str
    ok: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedEpisode:
    """One served customer: the tool calls in order, the answer, and the reward (1.0 when right)."""

    order: CustomerOrder
    habit: Habit
    calls: tuple[LoggedCall, ...]
    answer: str
    reward: float


def logged_episode(order: CustomerOrder, rng: random.Random) -> LoggedEpisode:
    """Return an episode in which one of the mediocre clerks serves `order`."""
    (habit,) = rng.choices(list(HABITS), weights=list(HABITS.values()))
    calls: tuple[LoggedCall, ...]
    match habit:
        case "right":
            calls = (_lookup(order, order.item), _calc(order, order.quantity, order.price))
        case "guess":
            calls = (_calc(order, order.quantity, rng.choice(PRICES)),)
        case "price_as_total":
            calls = (_lookup(order, order.item),)
        case "wrong_quantity":
            calls = (_lookup(order, order.item), _calc(order, rng.choice(QUANTITIES), order.price))
        case "wrong_item":
            looked_up = _lookup(order, rng.choice(ITEMS))
            calls = (looked_up, _calc(order, order.quantity, int(looked_up.reply)))
        case "blind":
            calls = ()
    answer = calls[-1].reply if calls else str(rng.randrange(4, 200))
    return LoggedEpisode(
        order=order, habit=habit, calls=calls, answer=answer, reward=judge(order, answer)
    )


def _lookup(order: CustomerOrder, item: str) -> LoggedCall:
    return _call(order, "lookup", {"item": item})


def _calc(order: CustomerOrder, left: int, right: int) -> LoggedCall:
    return _call(order, "calc", {"expression": f"{left}*{right}"})


def _call(order: CustomerOrder, name: str, arguments: dict[str, str]) -> LoggedCall:
    text = json.dumps(arguments)
    reply = call_tool(order, name, text)
    return LoggedCall(name=name, arguments=text, reply=reply.text, ok=reply.ok)
