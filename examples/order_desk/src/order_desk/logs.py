"""Logs of the clerks whom the model learns from first: deliberately mediocre.

A quarter do the job. More than half skip the look-up and guess a price; the rest make other
mistakes. A model that imitates them answers about one customer in four, knows the form of every
tool call, and leaves reinforcement learning everything to find: that looking up pays.

The logs hold text only (no token ids, no log-probabilities), as logs of a foreign model would.
"""

import json
import random
from dataclasses import dataclass
from typing import Literal

from order_desk.world import ITEMS, PRICES, QUANTITIES, Order, call_tool, judge

Habit = Literal["right", "guess", "price_as_total", "wrong_quantity", "wrong_item", "blind"]

HABITS: dict[Habit, int] = {
    "right": 25,
    "guess": 55,
    "price_as_total": 5,
    "wrong_quantity": 5,
    "wrong_item": 5,
    "blind": 5,
}
"""How the clerks work, in percent."""


@dataclass(frozen=True, kw_only=True)
class Call:
    """A tool call and what came back."""

    name: str
    arguments: str
    reply: str
    ok: bool


@dataclass(frozen=True, kw_only=True)
class LoggedEpisode:
    """One customer served: the tool calls in order, the answer, and whether it was right (1.0 or 0.0)."""

    order: Order
    habit: Habit
    calls: tuple[Call, ...]
    answer: str
    reward: float


def logged_episode(order: Order, rng: random.Random) -> LoggedEpisode:
    """How one of the mediocre clerks served `order`."""
    (habit,) = rng.choices(list(HABITS), weights=list(HABITS.values()))
    calls: tuple[Call, ...]
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


def _lookup(order: Order, item: str) -> Call:
    return _call(order, "lookup", {"item": item})


def _calc(order: Order, left: int, right: int) -> Call:
    return _call(order, "calc", {"expression": f"{left}*{right}"})


def _call(order: Order, name: str, arguments: dict[str, str]) -> Call:
    text = json.dumps(arguments)
    reply = call_tool(order, name, text)
    return Call(name=name, arguments=text, reply=reply.text, ok=reply.ok)
