"""Messages of the context in their chat form again, as engines and chat templates take them."""

from typing import Any

from atdp.schemas.chat_tool_calls import tool_calls_to_chat
from atdp.schemas.message import Message


def message_to_chat(message: Message) -> dict[str, Any]:
    """Return a message in OpenAI's shape, with its text and its tool calls."""
    plain: dict[str, Any] = {"role": message.role, "content": message.text or None}
    calls = tool_calls_to_chat(message)
    for call in calls:
        # Chat templates parse the arguments of a function.
        if call["type"] == "function" and not call["function"]["arguments"]:
            call["function"]["arguments"] = "{}"
    if calls:
        plain["tool_calls"] = calls
    if message.call_id is not None:
        plain["tool_call_id"] = message.call_id
    if message.name is not None:
        plain["name"] = message.name
    return plain
