"""The outcome of an action, and the failures that any record may carry."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from atdp.schemas.message import Message

OutcomeResult: TypeAlias = Literal["ok", "error", "unknown"]
UserDecision: TypeAlias = Literal["accepted", "edited", "rejected", "unknown"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Error:
    """A structured failure."""

    type: str
    code: str | None = None
    message: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """The outcome of an action; `message` is the result as it joins the context."""

    call_id: str | None = None
    name: str | None = None
    message: Message | None = None
    result: OutcomeResult = "unknown"
    exit_code: int | None = None
    error: Error | None = None
    decision: UserDecision | None = None
    subagent_trajectory_id: str | None = None
    ext_json: str | None = None
