"""Evidence about one attempt: everything that rules can make a reward of."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple, TypeAlias

from atdp.schemas import EndStatus, TargetKind

RatingType: TypeAlias = Literal["rating", "thumbs", "accept", "edit", "reject"]
"""The types of feedback that judge something; a comment does not."""


class Attempt(NamedTuple):
    """The identity of an attempt."""

    tenant: str
    trajectory: str
    attempt: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """The object of a reward: a trajectory, a step or an event."""

    kind: TargetKind = "trajectory"
    event_id: str | None = None
    step: int | None = None


TRAJECTORY = Target()


@dataclass(frozen=True, kw_only=True, slots=True)
class Rating:
    """Feedback of a person."""

    event_id: str
    target: Target
    type: RatingType
    value: float | None
    range_min: float | None
    range_max: float | None
    dimension: str | None
    actor: str | None
    at: datetime
    within_limits: bool
    """False beyond what one person may say (see `rules_file.Limits`)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolResult:
    """The result of a tool call."""

    event_id: str
    step: int
    tool: str | None
    failed: bool
    exit_code: int | None
    at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class End:
    """The newest end of the trajectory."""

    event_id: str
    status: EndStatus
    unanswered: bool
    """The last answer of the model asked for tools."""
    at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgeScore:
    """The verdict of a judge or check; `score` lies between 0 and 1."""

    event_id: str
    target: Target
    judge: str
    version: str | None
    score: float
    at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class ObservedReward:
    """A reward that a producer observed."""

    event_id: str
    target: Target
    source_name: str
    dimension: str
    value: float
    at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class AttemptEvidence:
    """All evidence about an attempt, in the order of the log."""

    attempt: Attempt
    agent_id: str
    task_id: str | None = None
    session_id: str | None = None
    ratings: tuple[Rating, ...] = ()
    results: tuple[ToolResult, ...] = ()
    end: End | None = None
    scores: tuple[JudgeScore, ...] = ()
    observed: tuple[ObservedReward, ...] = ()
    cost: float | None = None
    output_tokens: int | None = None
    steps: int = 0
