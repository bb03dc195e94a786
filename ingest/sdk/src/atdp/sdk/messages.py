"""Messages as agents hold them (the chat dicts of the OpenAI API) to messages of the contract, and nothing lost on the way.

Text stays text and an empty content adds no part; tool calls become parts whose text is the
arguments exactly as written; reasoning keeps its own part type; what the contract has no field for
goes verbatim into `ext_json`, unless it is null or empty. The gateway's proxy reads the same dicts
to the same messages (a contract test holds the two together).
"""

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from atdp.schemas import Message, Part, PartType
from atdp.sdk.json_text import canonical_json, json_text

MessageLike: TypeAlias = Message | Mapping[str, Any]

_MESSAGE_KEYS = frozenset(
    {"role", "content", "name", "tool_calls", "tool_call_id", "reasoning_content"}
)
_CALL_KEYS = frozenset({"id", "type", "function", "index"})
_PART_TYPES: Mapping[object, PartType] = {
    "image_url": "image",
    "input_audio": "audio",
    "file": "file",
}


def as_message(message: MessageLike) -> Message:
    """A message of the contract, from one or from a chat dict (`role`, `content`, `tool_calls`, `tool_call_id`, `name`, …)."""
    if isinstance(message, Message):
        return message
    parts: list[Part] = []
    if reasoning := message.get("reasoning_content"):
        parts.append(Part(type="reasoning", text=_text(reasoning)))
    parts.extend(_content_parts(message.get("content")))
    parts.extend(_tool_call_part(call) for call in message.get("tool_calls") or ())
    return Message(
        role=message["role"],
        parts=tuple(parts),
        name=message.get("name"),
        call_id=message.get("tool_call_id"),
        ext_json=_ext(message, _MESSAGE_KEYS),
    )


def as_messages(messages: Iterable[MessageLike]) -> tuple[Message, ...]:
    """Several of them, in order."""
    return tuple(as_message(message) for message in messages)


def _content_parts(content: object) -> list[Part]:
    if content is None or content == "":
        return []
    if isinstance(content, list | tuple):
        return [_content_part(piece) for piece in content]
    return [
        Part(text=content)
        if isinstance(content, str)
        else Part(type="json", text=json_text(content))
    ]


def _content_part(piece: object) -> Part:
    if isinstance(piece, str):
        return Part(text=piece)
    if not isinstance(piece, Mapping):
        return Part(type="json", text=json_text(piece))
    if piece.get("type") == "text":
        return Part(text=piece.get("text"), ext_json=_ext(piece, frozenset({"type", "text"})))
    return Part(
        type=_PART_TYPES.get(piece.get("type"), "unknown"), ext_json=canonical_json(dict(piece))
    )


def _tool_call_part(call: Mapping[str, Any]) -> Part:
    function = call.get("function") or {}
    return Part(
        type="tool_call",
        call_id=call.get("id"),
        name=function.get("name"),
        text=_text(function.get("arguments", "")),
        ext_json=_ext(call, _CALL_KEYS),
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else canonical_json(value)


def _ext(mapping: Mapping[str, Any], known: frozenset[str]) -> str | None:
    rest = {
        key: value
        for key, value in mapping.items()
        if key not in known and value not in (None, [], {})
    }
    return canonical_json(rest) if rest else None
