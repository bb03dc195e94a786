"""Trajectories that show a name before they teach it, and what readers see of them."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from atdp.schemas import (
    Agent,
    Body,
    Event,
    EventId,
    Message as ChatMessage,
    Observation,
    Part,
    Source,
    TrajectoryEnded,
    deterministic_event_id,
)

from . import governed_rows
from .governed_rows import Record
from .memory_log import MemoryWorkers

POLICY = """
apiVersion: atdp.governance/v1
kind: GovernancePolicy
metadata: {id: names, version: 1}
applies_to: {tenants: ["*"]}
purposes: [train, replay, analytics]
consent: {train: granted}
entities: {PERSON: {do: replace, text: "<P>"}, USER_ID: {do: replace, text: "<U>"}}
keys: [{entity: PERSON, names: [full_name]}, {entity: USER_ID, names: [username]}]
fields: [{path: "**", do: scan}]
"""
NAME, USER = "zorvax quilbax", "wexpatx"
TEXTS = (
    f"the order of {NAME} is late, account {USER}",
    "one moment please",
    f'{{"full_name": "{NAME.title()}", "items": 3}}',
    f"done, {NAME}; it is for {NAME.replace(' ', '_')}",
    "",
    "thanks",
    f'{{"username": "{USER}", "stars": 5}}',
)
"""A name is shown before it is learned, and a user id until after the end (the empty text)."""
RETENTION = timedelta(days=8)
BEFORE_END = TEXTS.index("")
OF_NAME, OF_ALL = 3, 4
"""Versions: a full name teaches itself and its two words, and the user id is one entry."""


def trajectory(number: int) -> list[Event]:
    start = datetime(2026, 11, 1, tzinfo=UTC)
    return [
        Event(
            event_id=deterministic_event_id(start, "acme", f"t{number}", str(seq)),
            tenant_id="acme",  # type: ignore[arg-type]
            trajectory_id=f"t{number}",  # type: ignore[arg-type]
            producer_id="p",
            seq=seq,
            occurred_at=start + timedelta(seconds=seq),
            agent=Agent(id="a"),
            source=Source(format="test"),
            body=Observation(messages=(ChatMessage(role="user", parts=(Part(text=text),)),))
            if text
            else TrajectoryEnded(status="completed"),
        )
        for seq, text in enumerate(TEXTS)
    ]


def interleaved(count: int) -> list[Event]:
    every = [trajectory(number) for number in range(count)]
    return [events[seq] for seq in range(len(TEXTS)) for events in every]


def late(body: Body, number: int = 0) -> Event:
    """Return an event that comes long after the others of its trajectory."""
    event = trajectory(number)[0]
    return replace(event, event_id=EventId(f"{event.event_id[:-3]}abc"), seq=0, body=body)


def said(text: str) -> Observation:
    return Observation(messages=(ChatMessage(role="user", parts=(Part(text=text),)),))


def governed(workers: MemoryWorkers) -> list[Record]:
    return [(each.value, each.headers) for each in workers.log.records("events_governed")]


def canaries(_: str, version: int | None) -> Sequence[str]:
    return (NAME, USER) if version in {None, OF_ALL} else (NAME,)


def leaks_to_readers(workers: MemoryWorkers) -> tuple[int, int]:
    return governed_rows.leaks_to_readers(governed(workers), canaries)
