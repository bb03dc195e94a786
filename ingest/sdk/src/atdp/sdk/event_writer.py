"""The events of one trajectory on their way to the recorder.

The builder of `atdp.schemas` numbers the events and holds the context. Each writer, and each forked
child's copy of it, is a producer of its own, so its numbers are gapless from 0.
"""

import itertools
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol

from atdp.schemas import (
    Action,
    Body,
    EnvelopeFields,
    Event,
    EventId,
    Gap,
    HeldContext,
    Message,
    SentTools,
    TrajectoryBuilder,
    TrajectoryIdentity,
    new_event_id,
)
from atdp.sdk.causes import cause_of
from atdp.sdk.envelope import Extras
from atdp.sdk.json_text import json_text

_writer_numbers = itertools.count()


class EventTaker(Protocol):
    """The recorder as an event writer uses it."""

    producer_id: str

    def take(
        self,
        event_id: EventId,
        make: Callable[[], Event],
        *,
        substitute: Callable[[Exception], Event] | None = None,
    ) -> EventId:
        """Build, encode and spool one event; see `Recorder.take`."""


class EventWriter:
    """Writes the events of one trajectory; safe under threads, as the recorder takes turns."""

    def __init__(self, recorder: EventTaker, identity: TrajectoryIdentity) -> None:
        """Write nothing yet."""
        self.builder: TrajectoryBuilder[Message] = TrajectoryBuilder(
            identity=identity,
            context=HeldContext(_message_key),
            tools=SentTools(remember_all=True),
        )
        self.last_action: EventId | None = None
        self.last_model_action: EventId | None = None
        self._recorder = recorder
        self._number = next(_writer_numbers)

    def write(self, build: Callable[[], Body], extras: Extras) -> EventId:
        """Record the event whose body `build` makes when the event's turn has come.

        A body that cannot be made or recorded leaves a gap event with its number.
        """
        event_id = new_event_id()
        now = datetime.now(UTC)
        taken: list[int] = []

        def make() -> Event:
            body = build()
            taken.append(self._take_seq())
            event = self._event(event_id, taken[0], now, body, extras)
            self._remember(event)
            return event

        def substitute(error: Exception) -> Event:
            seq = taken[0] if taken else self._take_seq()
            gap = Gap(code="not_recordable", detail=cause_of(error))
            return self._event(new_event_id(), seq, now, gap, {})

        return self._recorder.take(event_id, make, substitute=substitute)

    def _take_seq(self) -> int:
        return self.builder.take_seq(f"{self._recorder.producer_id}-{self._number}")

    def _event(
        self, event_id: EventId, seq: int, now: datetime, body: Body, extras: Extras
    ) -> Event:
        metadata, ext = extras.get("metadata"), extras.get("ext")
        fields: EnvelopeFields = {
            "ended_at": extras.get("ended_at"),
            "caused_by": tuple(extras.get("caused_by", ())),
            "usage": extras.get("usage"),
            "cost": extras.get("cost"),
            "latency_us": extras.get("latency_us"),
            "status": extras.get("status", "ok"),
            "metadata_json": None if metadata is None else json_text(metadata),
            "ext_json": None if ext is None else json_text(ext),
        }
        if "versions" in extras:
            fields["versions"] = extras["versions"]
        if "governance" in extras:
            fields["governance"] = extras["governance"]
        return self.builder.event(
            body,
            event_id=event_id,
            seq=seq,
            at=extras.get("occurred_at", now),
            step=extras.get("step"),
            **fields,
        )

    def _remember(self, event: Event) -> None:
        if isinstance(event.body, Action):
            self.last_action = event.event_id
            if event.body.type in {"message", "generation"}:
                self.last_model_action = event.event_id


def _message_key(message: Message) -> Message:
    return message
