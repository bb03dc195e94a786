"""OpenAI chat messages as event values: one reading for the proxy and for importers of chat logs.

Rules: text is kept as it is; an absent, null or empty content adds no part, since clients send all
three for the same message; tool-call arguments are kept exactly as written and, beside that,
parsed; what has no field of its own goes verbatim into `ext_json`, unless it is null or empty
(`refusal: null`, `annotations: []`).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from atdp.schemas.errors import SchemaError
from atdp.schemas.values import Message, Part, ToolCall

_MESSAGE_KEYS = frozenset(
    {"role", "content", "name", "tool_calls", "tool_call_id", "reasoning_content"}
)
_CALL_KEYS = frozenset({"id", "type", "function", "index"})


class MalformedMessage(SchemaError):
    """A chat message lacks what every message has; the text names the place, never the content."""


def message_from_chat(chat: object, where: str = "message") -> Message:
    """The event value of one OpenAI chat message.

    Raises:
        MalformedMessage: not an object, no role, or content of a type that chat messages do not
            have.
    """
    if not isinstance(chat, Mapping):
        raise MalformedMessage(f"{where} is not an object")
    role = chat.get("role")
    if not isinstance(role, str) or not role:
        raise MalformedMessage(f"{where} has no role")
    parts = [*_reasoning(chat, where), *_content(chat.get("content"), where), *_calls(chat, where)]
    return Message(
        role=role,
        parts=tuple(parts),
        name=_text(chat.get("name"), f"{where}.name"),
        call_id=_text(chat.get("tool_call_id"), f"{where}.tool_call_id"),
        ext_json=extra_json(chat, _MESSAGE_KEYS),
    )


def messages_from_chat(chat: object, where: str = "messages") -> tuple[Message, ...]:
    """The event values of a list of chat messages.

    Raises:
        MalformedMessage: not a list, or see `message_from_chat`.
    """
    if not isinstance(chat, Sequence) or isinstance(chat, str | bytes):
        raise MalformedMessage(f"{where} is not a list")
    return tuple(message_from_chat(each, f"{where}[{index}]") for index, each in enumerate(chat))


def tool_calls(message: Message) -> tuple[ToolCall, ...]:
    """The tool calls of an assistant message, as action values."""
    return tuple(
        ToolCall(
            call_id=part.call_id or "",
            name=part.name or "",
            arguments=part.text or "",
            arguments_json=parsed_json(part.text or ""),
        )
        for part in message.parts
        if part.type == "tool_call"
    )


def parsed_json(text: str) -> str | None:
    """Canonical JSON (sorted keys, no spaces) of JSON text; None when it does not parse or has no canonical form."""
    try:
        return canonical_json(orjson.loads(text))
    except (orjson.JSONDecodeError, MalformedMessage):
        return None


def canonical_json(value: Any) -> str:
    """Sorted keys, no spaces: equal values give equal text.

    Raises:
        MalformedMessage: the value is nested deeper than 254 levels, or holds what JSON cannot say.
    """
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
    except orjson.JSONEncodeError as error:
        raise MalformedMessage(
            f"it cannot be written as JSON: {error}; at most 254 levels are taken"
        ) from error


def extra_json(mapping: Mapping[str, Any], known: frozenset[str]) -> str | None:
    """What `known` does not cover, as a JSON object; None when there is nothing in it."""
    rest = {
        key: value
        for key, value in mapping.items()
        if key not in known and value not in (None, [], {})
    }
    return canonical_json(rest) if rest else None


def _content(content: object, where: str) -> list[Part]:
    if content is None or content == "":
        return []
    if isinstance(content, str):
        return [Part(type="text", text=content)]
    if not isinstance(content, list):
        raise MalformedMessage(f"{where}.content is neither text nor a list of parts")
    return [_content_part(part, f"{where}.content[{index}]") for index, part in enumerate(content)]


def _content_part(part: object, where: str) -> Part:
    if not isinstance(part, Mapping):
        raise MalformedMessage(f"{where} is not an object")
    if part.get("type") == "text":
        return Part(
            type="text",
            text=_text(part.get("text"), where),
            ext_json=extra_json(part, frozenset({"type", "text"})),
        )
    kinds = {"image_url": "image", "input_audio": "audio", "file": "file"}
    kind: Any = kinds.get(str(part.get("type")), "unknown")
    return Part(type=kind, ext_json=canonical_json(dict(part)))


def _reasoning(chat: Mapping[str, Any], where: str) -> list[Part]:
    text = _text(chat.get("reasoning_content"), f"{where}.reasoning_content")
    return [Part(type="reasoning", text=text)] if text else []


def _calls(chat: Mapping[str, Any], where: str) -> list[Part]:
    calls = chat.get("tool_calls") or []
    if not isinstance(calls, list):
        raise MalformedMessage(f"{where}.tool_calls is not a list")
    parts = []
    for index, call in enumerate(calls):
        at = f"{where}.tool_calls[{index}]"
        function = call.get("function") if isinstance(call, Mapping) else None
        if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
            raise MalformedMessage(f"{at} names no function")
        arguments = function.get("arguments", "")
        if not isinstance(arguments, str):  # some logs hold them parsed already
            arguments = _as_written(arguments, at)
        parts.append(
            Part(
                type="tool_call",
                text=arguments,
                call_id=_text(call.get("id"), f"{at}.id"),
                name=function["name"],
                ext_json=extra_json(call, _CALL_KEYS),
            )
        )
    return parts


def _as_written(arguments: object, where: str) -> str:
    try:
        return orjson.dumps(arguments).decode()
    except orjson.JSONEncodeError as error:
        raise MalformedMessage(
            f"{where}.function.arguments cannot be written as JSON: {error}"
        ) from error


def _text(value: object, where: str) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise MalformedMessage(f"{where} is not text")
