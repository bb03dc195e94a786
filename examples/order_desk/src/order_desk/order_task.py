"""The task of the order desk: small enough to be learned on a laptop, and it needs tools.

A customer asks `7 rope?`. The price of rope is drawn for each task and the question does not hold
it, so the only way to the right total is to `lookup` the price and to let `calc` multiply: two tool
calls and an answer, three turns of the model of at most `MAX_TURNS`. The reward is 1 when the final
answer is the total, else 0; there is no partial credit and no hint.

Everything here is a pure function of the order and of the model's text. The model reads the tool
messages, so they are short. An error is an ordinary tool message and never an exception.
"""

import json
import re
from dataclasses import dataclass
from typing import Any

_PRODUCT = re.compile(r"\s*(\d{1,6})\s*\*\s*(\d{1,6})\s*")

MAX_TURNS = 4
"""Model turns before an episode is cut off: one more than a perfect clerk needs."""

ITEMS = ("rope", "lamp", "tent", "soap", "bolt", "fork", "mug", "hat")
QUANTITIES = range(2, 10)
PRICES = range(2, 30)

TOOLS: tuple[dict[str, Any], ...] = (
    {
        "type": "function",
        "function": {
            "name": "lookup",
            "description": "Price of one piece of an item.",
            "parameters": {
                "type": "object",
                "properties": {"item": {"type": "string"}},
                "required": ["item"],
            },
        },
    },
    {
        "type": "function",
        "function": {
            "name": "calc",
            "description": "Product of two whole numbers, written a*b.",
            "parameters": {
                "type": "object",
                "properties": {"expression": {"type": "string"}},
                "required": ["expression"],
            },
        },
    },
)
"""The tools in the form of OpenAI's `tools` parameter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomerOrder:
    """One task: the wanted item and quantity, its price, and the customer's messages.

    Equal orders are the same task.
    """

    task_id: str
    item: str
    quantity: int
    price: int
    message: str
    """The customer's first message."""
    thanks: str | None = None
    """The customer's message after the answer; None when there is none."""

    @property
    def total(self) -> int:
        """The right answer."""
        return self.quantity * self.price


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolReply:
    """The reply of a tool: the text for the conversation; `ok` when the call was carried out."""

    text: str
    ok: bool


def call_tool(order: CustomerOrder, name: str, arguments: str) -> ToolReply:
    """Carry out a tool call as the model wrote it; `arguments` may be invalid JSON."""
    try:
        given = json.loads(arguments)
    except json.JSONDecodeError:
        return ToolReply(text="error: arguments are not JSON", ok=False)
    if not isinstance(given, dict):
        return ToolReply(text="error: arguments are not an object", ok=False)
    match name:
        case "lookup":
            return _lookup(order, given.get("item"))
        case "calc":
            return _calc(given.get("expression"))
        case _:
            return ToolReply(text="error: no such tool", ok=False)


def _lookup(order: CustomerOrder, item: object) -> ToolReply:
    if item == order.item:
        return ToolReply(text=str(order.price), ok=True)
    if item in ITEMS:
        # Another item has another price. A fixed function of the task gives the same price in all
        # attempts.
        shift = ITEMS.index(str(item)) + 1
        return ToolReply(text=str(PRICES[(order.price + shift) % len(PRICES)]), ok=True)
    return ToolReply(text="error: no such item", ok=False)


def _calc(expression: object) -> ToolReply:
    match = _PRODUCT.fullmatch(expression) if isinstance(expression, str) else None
    if match is None:
        return ToolReply(text="error: not a product", ok=False)
    return ToolReply(text=str(int(match.group(1)) * int(match.group(2))), ok=True)


def judge(order: CustomerOrder, answer: str | None) -> float:
    """Return 1.0 when the final answer is the total, else 0.0; no answer (cut off) is wrong."""
    return 1.0 if answer is not None and answer.strip() == str(order.total) else 0.0
