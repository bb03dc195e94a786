"""Messages as agents hold them, the chat dicts of the OpenAI API, as messages of the contract.

`atdp.schemas` has the one reader. The SDK uses its lenient reading: a value that no chat message
has is kept as JSON text instead of being refused, since an odd message must not be lost.
"""

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from atdp.schemas import Message, message_from_chat
from atdp.sdk.json_text import json_text

MessageLike: TypeAlias = Message | Mapping[str, Any]


def as_message(message: MessageLike) -> Message:
    """Return the message of the contract for a chat dict; a message of the contract stays itself.

    A chat dict has `role`, `content`, `tool_calls`, `tool_call_id`, `name` and whatever else the
    provider adds.

    Raises:
        MalformedMessage: the message is no dict or has no role. The methods of a trajectory record
            a gap event instead of raising.
    """
    if isinstance(message, Message):
        return message
    return message_from_chat(message, lenient=json_text)


def as_messages(messages: Iterable[MessageLike]) -> tuple[Message, ...]:
    """Return the messages of the contract, in the order given; see `as_message`."""
    return tuple(as_message(message) for message in messages)
