"""What an importer reads: trajectories without tenant or ids, and what could not be read.

An importer says what happened, in order; `events` makes events of it. Ids are derived from the
content (format, origin, position, tenant), so importing the same file again gives the same events,
on any machine, and the lake keeps them once.

Formats without time get `NO_TIME` plus one millisecond per event: an obviously unreal time that
keeps the order. An import must not invent when something happened.
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


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One event to be: a body and the envelope fields that are its own."""

    body: Body
    step: int = 0
    status: Status = "unknown"
    causes: tuple[int, ...] = ()
    """Indices of earlier entries that led to this one."""
    metadata_json: str | None = None
    ext_json: str | None = None


@dataclass(frozen=True, kw_only=True)
class Trajectory:
    """One trajectory as it stands in a file."""

    origin: str
    """File and row, for people."""
    identity: tuple[str, ...]
    """What makes it this trajectory and no other; never the path of the file on this machine."""
    task_id: str
    attempt: int
    agent: Agent
    source: Source
    entries: tuple[Entry, ...]
    started_at: datetime = NO_TIME
    """When it began; `NO_TIME` where the format does not say."""


@dataclass(frozen=True)
class Failed:
    """A file or row that cannot be imported; the reason names the place and quotes no value."""

    origin: str
    reason: str


class Importer(Protocol):
    """Reads one format. Importers hold no state between files."""

    @property
    def format(self) -> str:
        """Name on the command line."""
        ...

    def probe(self, path: Path) -> bool:
        """Whether a file looks like this format; cheap, never raises for any file that can be read."""
        ...

    def read(self, path: Path) -> Iterator[Trajectory | Failed]:
        """Everything in the file, in its order; what is broken comes as `Failed`, and the rest goes on."""
        ...


def events(trajectory: Trajectory, tenant: str) -> list[Event]:
    """The events of a trajectory for a tenant; `seq` counts from 0."""
    source = trajectory.source
    name = (source.format, tenant, *trajectory.identity)
    trajectory_id = TrajectoryId(deterministic_event_id(trajectory.started_at, *name))
    ids: list[EventId] = []
    made = []
    for seq, entry in enumerate(trajectory.entries):
        at = trajectory.started_at + timedelta(milliseconds=seq)
        ids.append(deterministic_event_id(at, *name, str(seq)))
        made.append(
            Event(
                event_id=ids[seq],
                tenant_id=TenantId(tenant),
                trajectory_id=trajectory_id,
                attempt=trajectory.attempt,
                task_id=trajectory.task_id,
                producer_id=f"import-{source.format}",
                seq=seq,
                step=entry.step,
                occurred_at=at,
                caused_by=tuple(ids[cause] for cause in entry.causes),
                agent=trajectory.agent,
                source=source,
                status=entry.status,
                metadata_json=entry.metadata_json,
                ext_json=entry.ext_json,
                body=entry.body,
            )
        )
    return made
