"""Messages of the model's context, and the parts that they consist of."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

PartType: TypeAlias = Literal[
    "text",
    "reasoning",
    "tool_call",
    "json",
    "image",
    "audio",
    "file",
    "tool_result",
    "custom_tool_call",
    "video",
    "unknown",
]


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """One piece of a message.

    `text` of a `tool_call` holds its arguments, and of a `custom_tool_call` its input, exactly as
    written. A piece whose content is stored elsewhere has `uri`, `sha256` and `size_bytes` of it.
    """

    type: PartType = "text"
    text: str | None = None
    call_id: str | None = None
    name: str | None = None
    mime: str | None = None
    uri: str | None = None
    sha256: str | None = None
    size_bytes: int | None = None
    signature: str | None = None
    cache_control_json: str | None = None
    ext_json: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Message:
    """One message of the model's context."""

    role: str
    parts: tuple[Part, ...] = ()
    name: str | None = None
    call_id: str | None = None
    ext_json: str | None = None

    @property
    def text(self) -> str:
        """The text parts, joined; empty when there are none."""
        return "".join(part.text or "" for part in self.parts if part.type == "text")
