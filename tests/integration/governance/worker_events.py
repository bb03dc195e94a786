"""Events of the worker's tests."""

from datetime import UTC, datetime, timedelta

from atdp.schemas import (
    Agent,
    Event,
    Message as ChatMessage,
    Observation,
    Part,
    Source,
    TrajectoryEnded,
    deterministic_event_id,
)

START = datetime(2026, 11, 1, tzinfo=UTC)


def event(trajectory: str, seq: int, text: str, *, tenant: str = "acme") -> Event:
    """Return an observation of one user message; without `text`, the end of a trajectory."""
    at = START + timedelta(milliseconds=seq)
    return Event(
        event_id=deterministic_event_id(at, tenant, trajectory, str(seq)),
        tenant_id=tenant,  # type: ignore[arg-type]
        trajectory_id=trajectory,  # type: ignore[arg-type]
        producer_id="test",
        seq=seq,
        occurred_at=at,
        agent=Agent(id="agent"),
        source=Source(format="test"),
        body=TrajectoryEnded(status="completed")
        if not text
        else Observation(messages=(ChatMessage(role="user", parts=(Part(text=text),)),)),
    )


def trajectories(count: int, length: int, *, tenant: str = "acme") -> list[Event]:
    """Return the events of `count` trajectories, interleaved.

    Each message holds an e-mail address of its own.
    """
    return [
        event(
            f"run/{number:04d}",
            seq,
            f"turn {seq}: write to person.{number}.{seq}@leak.org",
            tenant=tenant,
        )
        for seq in range(length)
        for number in range(count)
    ]
