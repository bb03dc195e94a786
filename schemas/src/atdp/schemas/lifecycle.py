"""The start and the end of a trajectory, and the gaps in the record between them."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from atdp.schemas.outcome import Error

EndStatus: TypeAlias = Literal["completed", "failed", "truncated", "aborted", "idle", "unknown"]


@dataclass(frozen=True, kw_only=True, slots=True)
class TrajectoryStarted:
    """The start of a trajectory."""

    task: str | None = None
    environment: str | None = None
    seed: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Gap:
    """A part of the trajectory that was not observed, with the reason; seqs are inclusive."""

    code: str
    detail: str | None = None
    from_seq: int | None = None
    to_seq: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class TrajectoryEnded:
    """The end of a trajectory; rewards and feedback may still follow."""

    status: EndStatus
    error: Error | None = None
