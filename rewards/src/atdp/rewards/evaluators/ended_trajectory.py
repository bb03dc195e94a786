"""The end of a trajectory, as the governed topic tells it, and the share that is evaluated."""

import hashlib
from dataclasses import dataclass
from datetime import datetime

from atdp.rewards.evaluators.evaluators_file import Evaluator
from atdp.schemas import EndStatus, Event, TrajectoryEnded


@dataclass(frozen=True, kw_only=True, slots=True)
class EndedTrajectory:
    """One end; a trajectory that was idle and went on has several."""

    tenant: str
    trajectory: str
    attempt: int
    end_event_id: str
    ended_at: datetime
    """The time of the event; where nobody knows it, that of its record."""
    status: EndStatus
    agent: str
    session: str | None
    task: str | None
    partition: int
    offset: int

    @classmethod
    def of_event(
        cls, event: Event, *, partition: int, offset: int, arrived_at: datetime
    ) -> "EndedTrajectory | None":
        """Return the end that an event tells; None for other events."""
        if not isinstance(event.body, TrajectoryEnded):
            return None
        return cls(
            tenant=event.tenant_id,
            trajectory=event.trajectory_id,
            attempt=event.attempt,
            end_event_id=event.event_id,
            ended_at=event.occurred_at or arrived_at,
            status=event.body.status,
            agent=event.agent.id,
            session=event.session_id,
            task=event.task_id,
            partition=partition,
            offset=offset,
        )


def is_chosen(evaluator: Evaluator, end: EndedTrajectory) -> bool:
    """Return whether an evaluator looks at a trajectory.

    The share depends on names alone, so every worker chooses the same trajectories.
    """
    if evaluator.since is not None and end.ended_at < evaluator.since:
        return False
    wanted = evaluator.filter
    if wanted.agent is not None and end.agent not in wanted.agent:
        return False
    if wanted.status is not None and end.status not in wanted.status:
        return False
    name = "\x1f".join((evaluator.name, end.tenant, end.trajectory, str(end.attempt)))
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big") < evaluator.share * 2**64
