"""One customer served: the conversation as a state machine, without network or clock.

`Episode` holds the messages that the model is shown next and says when it is over. Whoever drives
it (an agent over HTTP, a test with a scripted model) hands in each reply of the model; tools are
carried out by the order desk in between.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from order_desk.world import MAX_TURNS, Order, call_tool, judge

ChatMessage = dict[str, Any]
"""A chat message in OpenAI's shape, as the client library takes it."""


@dataclass(frozen=True, kw_only=True)
class ToolRequest:
    """A tool call that the model asked for."""

    call_id: str
    name: str
    arguments: str


@dataclass
class Episode:
    """The conversation of one attempt at an order."""

    order: Order
    messages: list[ChatMessage] = field(init=False)
    turns: int = field(init=False, default=0)
    answer: str | None = field(init=False, default=None)
    over: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        """Open with what the customer writes."""
        self.messages = [{"role": "user", "content": self.order.message}]

    def reply(self, content: str | None, calls: Sequence[ToolRequest]) -> None:
        """The model's next turn: tool calls are carried out, plain text is the final answer."""
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
        """Cut off before an answer."""
        return self.over and self.answer is None

    @property
    def reward(self) -> float:
        """1.0 for the right total, else 0.0."""
        return judge(self.order, self.answer)
