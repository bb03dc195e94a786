"""The values that an importer reads, and the events that are made of them.

An importer describes what happened, in order; `make_events` turns it into events. Ids are derived
from the content (format, origin, position, tenant). Importing the same file again therefore gives
the same events, on any machine, and the lake keeps them once.

Formats without time get `NO_TIME` plus one millisecond per event: a time that is obviously not real
and keeps the order. An import must not invent when something happened.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Protocol

from atdp.schemas import (
    Agent,
    Body,
    Event,
    EventId,
    Source,
    Status,
    TenantId,
    TrajectoryId,
    deterministic_event_id,
)

NO_TIME = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportedEvent:
    """The content of one event: its body, and the envelope fields of its own."""

    body: Body
    step: int = 0
    status: Status = "unknown"
    causes: tuple[int, ...] = ()
    """Indices of the earlier events of the trajectory that led to this one."""
    metadata_json: str | None = None
    ext_json: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportedTrajectory:
    """One trajectory as a file holds it, without tenant and ids."""

    origin: str
    """File and row, for messages."""
    identity: tuple[str, ...]
    """The parts that distinguish it from every other trajectory.

    The path of the file on this machine is not one of them.
    """
    task_id: str
    attempt: int
    agent: Agent
    source: Source
    events: tuple[ImportedEvent, ...]
    started_at: datetime = NO_TIME
    """Time of its start; `NO_TIME` where the format has none."""


@dataclass(frozen=True, slots=True)
class UnreadableEntry:
    """A file or row that cannot be imported; the reason names the place and quotes no value."""

    origin: str
    reason: str


class Importer(Protocol):
    """Reads one format; holds no state between files."""

    @property
    def format(self) -> str:
        """Name on the command line."""
        ...

    def probe(self, path: Path) -> bool:
        """Return True when a file looks like this format; fast, and raises for no readable file."""
        ...

    def read(self, path: Path) -> Iterator[ImportedTrajectory | UnreadableEntry]:
        """Yield the trajectories of a file in order, and an `UnreadableEntry` for each bad row."""
        ...


def make_events(trajectory: ImportedTrajectory, tenant: str) -> list[Event]:
    """Return the events of a trajectory for a tenant; `seq` counts from 0."""
    source = trajectory.source
    name = (source.format, tenant, *trajectory.identity)
    trajectory_id = TrajectoryId(deterministic_event_id(trajectory.started_at, *name))
    ids: list[EventId] = []
    events = []
    for seq, content in enumerate(trajectory.events):
        at = trajectory.started_at + timedelta(milliseconds=seq)
        ids.append(deterministic_event_id(at, *name, str(seq)))
        events.append(
            Event(
                event_id=ids[seq],
                tenant_id=TenantId(tenant),
                trajectory_id=trajectory_id,
                attempt=trajectory.attempt,
                task_id=trajectory.task_id,
                producer_id=f"import-{source.format}",
                seq=seq,
                step=content.step,
                occurred_at=at,
                caused_by=tuple(ids[cause] for cause in content.causes),
                agent=trajectory.agent,
                source=source,
                status=content.status,
                metadata_json=content.metadata_json,
                ext_json=content.ext_json,
                body=content.body,
            )
        )
    return events
