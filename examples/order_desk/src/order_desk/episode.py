"""The conversation with one customer as a state machine, without network or clock.

`Episode` holds the messages that the model reads next, and whether the conversation is over. Its
user (an agent over HTTP, or a test with a scripted model) passes in each reply of the model; the
order desk carries out the tool calls in between.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from order_desk.order_task import MAX_TURNS, CustomerOrder, call_tool, judge

ChatMessage = dict[str, Any]
"""A chat message in OpenAI's shape, as the client library takes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRequest:
    """A tool call that the model asked for."""

    call_id: str
    name: str
    arguments: str


@dataclass(slots=True)
class Episode:
    """The conversation of one attempt at an order."""

    order: CustomerOrder
    messages: list[ChatMessage] = field(init=False)
    turns: int = field(init=False, default=0)
    answer: str | None = field(init=False, default=None)
    over: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        """Begin with the customer's message."""
        self.messages = [{"role": "user", "content": self.order.message}]

    def reply(self, content: str | None, calls: Sequence[ToolRequest]) -> None:
        """Take the model's next turn: carry out tool calls; plain text is the final answer.

        Raises:
            ValueError: the episode is over.
        """
        if self.over:
            raise ValueError(f"episode {self.order.task_id} is over")
        self.turns += 1
        if not calls:
            self.answer, self.over = content or "", True
            return
        self.messages.append(
            {
                "role": "assistant",
                "content": content,
                "tool_calls": [
                    {
                        "id": call.call_id,
                        "type": "function",
                        "function": {"name": call.name, "arguments": call.arguments},
                    }
                    for call in calls
                ],
            }
        )
        for call in calls:
            reply = call_tool(self.order, call.name, call.arguments)
            self.messages.append(
                {"role": "tool", "tool_call_id": call.call_id, "content": reply.text}
            )
        self.over = self.turns >= MAX_TURNS

    @property
    def truncated(self) -> bool:
        """True when it was cut off before an answer."""
        return self.over and self.answer is None

    @property
    def reward(self) -> float:
        """1.0 for the right total, else 0.0."""
        return judge(self.order, self.answer)
