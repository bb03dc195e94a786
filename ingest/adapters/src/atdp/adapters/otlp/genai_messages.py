"""Messages as OpenTelemetry's GenAI conventions write them: a role and a list of parts."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from atdp.adapters.documents.json_text import ordered_json
from atdp.adapters.documents.remainder import remainder_json, restore_from
from atdp.adapters.documents.typed import as_objects, as_text, without_none
from atdp.schemas import Message, Part, PartType

SYSTEM_INSTRUCTIONS = '{"from":"gen_ai.system_instructions"}'
"""`ext_json` of a message that stands in an attribute of its own."""

_MODALITIES: Mapping[str, PartType] = {
    "image": "image",
    "audio": "audio",
    "video": "video",
    "document": "file",
}
_MODALITY_OF = {part_type: modality for modality, part_type in _MODALITIES.items()}


def read_messages(value: object) -> tuple[Message, ...] | None:
    """Return the messages of `gen_ai.input.messages` or `gen_ai.output.messages`.

    None means that the value is no list of messages.
    """
    entries = as_objects(value)
    if entries is None or not all(as_text(entry.get("role")) for entry in entries):
        return None
    return tuple(_read_message(entry) for entry in entries)


def write_message(message: Message) -> dict[str, Any]:
    """Return a message as it was read."""
    return dict(restore_from(_written(message), message.ext_json))


def read_instructions(value: object) -> Message | None:
    """Return the message of `gen_ai.system_instructions`."""
    entries = as_objects(value)
    if entries is None:
        return None
    parts = tuple(_read_part(entry) for entry in entries)
    return Message(role="system", parts=parts, ext_json=SYSTEM_INSTRUCTIONS)


def write_parts(parts: Sequence[Part]) -> list[Any]:
    """Return the parts of a message as they were read."""
    return [restore_from(_write_part(part), part.ext_json) for part in parts]


def content_text(value: object) -> str:
    """Return arguments or a result as text; a text is itself, other values are their JSON."""
    return value if isinstance(value, str) else ordered_json(value)


def content_value(text: str | None) -> Any:
    """Return the value that `content_text` gave a text for, if it was an object or a list."""
    try:
        value = json.loads(text or "")
    except ValueError:
        return text
    return value if isinstance(value, dict | list) else text


def _read_message(entry: Mapping[str, Any]) -> Message:
    parts = as_objects(entry.get("parts")) or []
    message = Message(
        role=entry["role"],
        parts=tuple(_read_part(part) for part in parts),
        name=as_text(entry.get("name")),
    )
    source = {key: value for key, value in entry.items() if key != "finish_reason"}
    return replace(message, ext_json=remainder_json(_written(message), source))


def _written(message: Message) -> dict[str, Any]:
    return {
        "role": message.role,
        "parts": write_parts(message.parts),
        **without_none(name=message.name),
    }


def _read_part(entry: Mapping[str, Any]) -> Part:
    part = _part(entry)
    return replace(part, ext_json=remainder_json(_write_part(part), entry))


def _part(entry: Mapping[str, Any]) -> Part:
    kind = entry.get("type")
    modality = entry.get("modality")
    media = _MODALITIES.get(modality, "unknown") if isinstance(modality, str) else "unknown"
    match kind:
        case "text" | "reasoning":
            return Part(type=kind, text=as_text(entry.get("content")))
        case "tool_call":
            arguments = entry.get("arguments")
            return Part(
                type="tool_call",
                text=None if arguments is None else content_text(arguments),
                call_id=as_text(entry.get("id")),
                name=as_text(entry.get("name")),
            )
        case "tool_call_response":
            response = entry.get("response", entry.get("result"))
            return Part(
                type="tool_result",
                text=None if response is None else content_text(response),
                call_id=as_text(entry.get("id")),
            )
        case "uri" | "blob" | "file":
            return Part(
                type=media, mime=as_text(entry.get("mime_type")), uri=as_text(entry.get("uri"))
            )
        case _:
            return Part(type="unknown")


def _write_part(part: Part) -> dict[str, Any]:
    match part.type:
        case "text" | "reasoning":
            return {"type": part.type, **without_none(content=part.text)}
        case "tool_call":
            return {
                "type": "tool_call",
                **without_none(id=part.call_id, name=part.name, arguments=content_value(part.text)),
            }
        case "tool_result":
            response = content_value(part.text)
            return {
                "type": "tool_call_response",
                **without_none(id=part.call_id, response=response),
            }
        case "image" | "audio" | "video" | "file":
            modality = _MODALITY_OF[part.type]
            return {
                "type": "uri",
                "modality": modality,
                **without_none(mime_type=part.mime, uri=part.uri),
            }
        case _:
            return {}
