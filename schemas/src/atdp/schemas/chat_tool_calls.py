"""The tool calls of chat messages: as parts of a message, as actions and in their chat form again.

A message holds its calls as parts, in the order written. A part of type `tool_call` calls a
function and holds its arguments; one of type `custom_tool_call` calls a custom tool, whose input is
text of any form.
"""

import json
from collections.abc import Mapping
from typing import Any

from atdp.schemas.action import ToolCall
from atdp.schemas.canonical import NotCanonical, canonical_json
from atdp.schemas.message import Message, Part, PartType

CALL_TYPES: Mapping[PartType, tuple[str, str]] = {
    "tool_call": ("function", "arguments"),
    "custom_tool_call": ("custom", "input"),
}
"""By part type: the call's type, which is also the name of its body, and its text in the body."""


def tool_calls(message: Message) -> tuple[ToolCall, ...]:
    """Return the tool calls of an assistant message as action values."""
    return tuple(_tool_call(part) for part in message.parts if part.type in CALL_TYPES)


def tool_calls_to_chat(message: Message) -> list[dict[str, Any]]:
    """Return the tool calls of a message as `tool_calls` of a chat message, in their order."""
    calls = []
    for part in message.parts:
        if part.type not in CALL_TYPES:
            continue
        kind, text_key = CALL_TYPES[part.type]
        extra = {} if part.ext_json is None else json.loads(part.ext_json)
        body = {"name": part.name or "", text_key: part.text or "", **extra.pop(kind, {})}
        calls.append({"id": part.call_id, "type": kind, kind: body, **extra})
    return calls


def parsed_json(text: str) -> str | None:
    """Return the canonical JSON of JSON text.

    None means that the text is not JSON or has no canonical form.
    """
    try:
        canonical = canonical_json(json.loads(text))
        canonical.encode()
    except (ValueError, RecursionError, NotCanonical):
        return None
    return canonical


def _tool_call(part: Part) -> ToolCall:
    is_custom = part.type == "custom_tool_call"
    text = part.text or ""
    return ToolCall(
        call_id=part.call_id or "",
        name=part.name or "",
        arguments=text,
        arguments_json=None if is_custom else parsed_json(text),
        tool_type="custom" if is_custom else None,
    )
