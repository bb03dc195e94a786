"""Messages as OpenInference writes them: one attribute for each leaf, with indices in its name."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from atdp.adapters.documents.typed import as_text, without_none
from atdp.schemas import Message, Part, PartType

_MEDIA: Mapping[str, PartType] = {
    "image": "image",
    "audio": "audio",
    "video": "video",
    "document": "file",
}
_MEDIA_NAMES = {part_type: name for name, part_type in _MEDIA.items()}
_URLS = {
    "image": "image.image.url",
    "audio": "audio.audio.url",
    "video": "video.video.url",
    "document": "document.document.url",
}
_INDEX = re.compile("0|[1-9][0-9]{0,5}")
_MIMES = {"audio": "audio.audio.mime_type", "document": "document.document.mime_type"}


def indexed(attributes: Mapping[str, Any], prefix: str) -> list[dict[str, Any]] | None:
    """Return the objects of a list that is flattened below `prefix`; None where there is none.

    Indices that are missing are skipped: some instrumentations number tool calls from 1.
    """
    found: dict[int, dict[str, Any]] = {}
    for key, value in attributes.items():
        if not key.startswith(prefix + "."):
            continue
        index, dot, rest = key[len(prefix) + 1 :].partition(".")
        if dot and _INDEX.fullmatch(index):
            found.setdefault(int(index), {})[rest] = value
    return [found[index] for index in sorted(found)] or None


def flattened(prefix: str, objects: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the attributes of a list of flat objects."""
    return {
        f"{prefix}.{index}.{key}": value
        for index, each in enumerate(objects)
        for key, value in each.items()
    }


def read_messages(attributes: Mapping[str, Any], prefix: str) -> tuple[Message, ...] | None:
    """Return the messages below `prefix`; None where there are none or one has no role."""
    entries = indexed(attributes, prefix)
    if entries is None or not all(as_text(entry.get("message.role")) for entry in entries):
        return None
    return tuple(_read_message(entry) for entry in entries)


def write_messages(prefix: str, messages: Sequence[Message]) -> dict[str, Any]:
    """Return the attributes that the fields of messages say."""
    return flattened(prefix, [_write_message(message) for message in messages])


def _read_message(entry: Mapping[str, Any]) -> Message:
    content = as_text(entry.get("message.content"))
    text = [Part(type="text", text=content)] if content else []
    contents = [_read_content(each) for each in indexed(entry, "message.contents") or []]
    return Message(
        role=entry["message.role"],
        parts=(*text, *contents, *_read_calls(entry)),
        name=as_text(entry.get("message.name")),
        call_id=as_text(entry.get("message.tool_call_id")),
        ext_json='{"content":"list"}' if contents else None,
    )


def _read_calls(entry: Mapping[str, Any]) -> Iterator[Part]:
    for call in indexed(entry, "message.tool_calls") or []:
        yield Part(
            type="tool_call",
            call_id=as_text(call.get("tool_call.id")),
            name=as_text(call.get("tool_call.function.name")),
            text=as_text(call.get("tool_call.function.arguments")),
            signature=as_text(call.get("tool_call.reasoning_signature")),
        )


def _read_content(entry: Mapping[str, Any]) -> Part:
    kind = entry.get("message_content.type")
    signature = as_text(entry.get("message_content.signature"))
    match kind:
        case "text" | "reasoning":
            text = as_text(entry.get("message_content.text"))
            return Part(type=kind, text=text, signature=signature)
        case "image" | "audio" | "video" | "document":
            return Part(
                type=_MEDIA[kind],
                uri=as_text(entry.get(f"message_content.{_URLS[kind]}")),
                mime=as_text(entry.get(f"message_content.{_MIMES.get(kind, '')}")),
                signature=signature,
            )
        case _:
            return Part(type="unknown", signature=signature)


def _write_message(message: Message) -> dict[str, Any]:
    written: dict[str, Any] = {"message.role": message.role}
    calls = [part for part in message.parts if part.type == "tool_call"]
    contents = [part for part in message.parts if part.type != "tool_call"]
    if message.ext_json is None and len(contents) == 1:
        written["message.content"] = contents[0].text
    else:
        written.update(flattened("message.contents", [_write_content(each) for each in contents]))
    names = {"message.name": message.name, "message.tool_call_id": message.call_id}
    written.update({key: value for key, value in names.items() if value is not None})
    return {**written, **flattened("message.tool_calls", [_write_call(call) for call in calls])}


def _write_call(part: Part) -> dict[str, Any]:
    written = {
        "tool_call.id": part.call_id,
        "tool_call.function.name": part.name,
        "tool_call.function.arguments": part.text,
        "tool_call.reasoning_signature": part.signature,
    }
    return {key: value for key, value in written.items() if value is not None}


def _write_content(part: Part) -> dict[str, Any]:
    kind = _MEDIA_NAMES.get(part.type, part.type)
    written: dict[str, Any] = {"type": kind, **without_none(text=part.text)}
    if kind in _URLS:
        written.update({_URLS[kind]: part.uri, _MIMES.get(kind, "mime"): part.mime})
    written["signature"] = part.signature
    return {f"message_content.{key}": value for key, value in written.items() if value is not None}
