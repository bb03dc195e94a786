"""The messages that the model was shown, and the state that the harness holds between calls."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from atdp.schemas.message import Message

InternalStateType: TypeAlias = Literal[
    "plan", "reasoning_summary", "confidence", "other", "memory", "compaction", "unknown"
]


@dataclass(frozen=True, kw_only=True, slots=True)
class Observation:
    """The messages shown to the model, as a delta against the context held so far.

    `atdp.schemas.context` explains the delta. `copied` is true for context that was copied from
    elsewhere and not produced in this trajectory.
    """

    messages: tuple[Message, ...] = ()
    context_base: int | None = None
    context_hash: str | None = None
    tools_hash: str | None = None
    tools_json: str | None = None
    copied: bool | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class InternalState:
    """Bounded harness state: a plan, a summary of reasoning, a confidence from 0 to 1."""

    type: InternalStateType
    text: str | None = None
    confidence: float | None = None
    provenance: str | None = None
    ext_json: str | None = None
