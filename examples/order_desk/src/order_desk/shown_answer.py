"""The answer that a chat shows to its user, and the agents that give one.

An agent of the demo is an ordinary program: it knows the address and the key of an
OpenAI-compatible endpoint and a name of a model, and nothing of the platform behind it.
"""

from dataclasses import dataclass
from typing import Any, Protocol

from order_desk.order_task import TOOLS, CustomerOrder

MAX_TOKENS = 32
"""Longest turn of the model in tokens: a tool call takes fewer than fifteen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownAnswer:
    """The last answer in a chat; the chat's rating button sends its `response_id`."""

    text: str | None
    """None: the agent gave up, and the user sees an apology."""
    response_id: str | None


class ChatAgent(Protocol):
    """An agent that serves one user at a time, many of them concurrently."""

    async def serve(self, order: CustomerOrder) -> ShownAnswer:
        """Serve a user to the end.

        Raises:
            OpenAIError: the endpoint did not answer.
        """
        ...


def tool_parameters() -> dict[str, tuple[str, dict[str, Any]]]:
    """Return the description and the parameters of each tool by its name."""
    functions = [tool["function"] for tool in TOOLS]
    return {each["name"]: (each["description"], each["parameters"]) for each in functions}
