"""A request as the recogniser sees it, and the place that it gives the call."""

from dataclasses import dataclass
from typing import Literal

from atdp.gateway.recognition.conversation_hints import ConversationHints
from atdp.gateway.recognition.recognition_rules import RuleName
from atdp.gateway.recognition.shown_history import ShownHistory

GapCode = Literal["history_edited", "history_compacted"]


@dataclass(frozen=True, kw_only=True, slots=True)
class RecognisedCall:
    """The place of a request: its trajectory, and why."""

    call: int
    """The number under which the answer is reported."""
    trajectory_id: str
    rule: RuleName
    related_event: str | None = None
    """The event that the call goes on from, repeats, or was spawned by."""
    related_trajectory: str | None = None
    gap: GapCode | None = None
    answers_before: int = 0
    """Answers that the trajectory has already."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RecognisableRequest:
    """A request as the recogniser sees it."""

    history: ShownHistory
    hints: ConversationHints
    family: bytes
    """The scope of tool calls and their sub-agents, which may use another model."""
    at: float
    """Seconds since the epoch."""
    first_user_text: str | None = None
    answered_calls: tuple[str, ...] = ()
    """Ids of the tool calls whose results stand behind the last assistant message."""
