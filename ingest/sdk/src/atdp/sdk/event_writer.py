"""The events of one trajectory on their way to the recorder.

The builder of `atdp.schemas` numbers the events and holds the context. Each writer, and each forked
child's copy of it, is a producer of its own, so its numbers are gapless from 0.

An event that does not get into the log (the spool is full, the receiver refuses it) leaves a hole
in the numbers, and readers do not hold the context that this writer holds. A gap event then names
the missing numbers before anything else is written, and the next observation sends context and
tools in full. A gap that is lost itself is part of the next one.
"""

import itertools
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
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
    PromptMemory,
    SentTools,
    TrajectoryBuilder,
    TrajectoryIdentity,
    new_event_id,
)
from atdp.sdk.causes import cause_of
from atdp.sdk.envelope import Extras
from atdp.sdk.errors import RedactionFailed
from atdp.sdk.event_intake import OfferedEvent
from atdp.sdk.json_text import json_text
from atdp.sdk.lost_numbers import LostNumbers

NOT_TAKEN = "not_taken"
"""Code of a gap: the spool had no room, or the disk took no more."""
REFUSED = "refused"
"""Code of a gap: the receiver will never take the events, which are too large, for example."""
NOT_RECORDABLE = "not_recordable"
"""Code of a gap in place of an event that could not be made or encoded."""
REDACTION_FAILED = "redaction_failed"
"""Code of a gap in place of an event whose content a function of `redact` failed to change."""

_writer_numbers = itertools.count()


class EventTaker(Protocol):
    """The recorder as an event writer uses it."""

    producer_id: str
    prompts: PromptMemory
    """The tokens of generations in the spool. It is used in the turn of an event."""

    def take(self, offered: OfferedEvent) -> EventId:
        """Build, encode and spool one event; see `Recorder.take`."""

    def watch_refusals(self, producer_id: str, writer: "EventWriter") -> None:
        """Call `writer.note_refused` for each event of the producer that is refused later."""

    def owe_gap(self, writer: "EventWriter") -> None:
        """Ask for `writer.owed_gap` when there may be room, at the latest on flush and close."""


class EventWriter:
    """Writes the events of one trajectory; safe under threads, as the recorder takes turns."""

    def __init__(self, recorder: EventTaker, identity: TrajectoryIdentity) -> None:
        """Write nothing yet."""
        self.builder: TrajectoryBuilder[Message] = TrajectoryBuilder(
            identity=identity,
            context=HeldContext(_message_key),
            tools=SentTools(remember_all=True),
            prompts=recorder.prompts,
        )
        self.last_action: EventId | None = None
        self.last_model_action: EventId | None = None
        self._recorder = recorder
        self._number = next(_writer_numbers)
        self.producer_id = ""
        self._lost = LostNumbers()
        self._gap_id: EventId | None = None
        """Event id of the gap that was made last for lost numbers."""
        self._refused: deque[tuple[int, Gap | None]] = deque()
        """Number of each refused event, with its body if that is a gap; the shipper's thread
        appends."""

    def write(
        self, build: Callable[[EventId], Body], extras: Extras, *, adds_messages: bool = False
    ) -> EventId:
        """Record the event whose body `build` makes, from the event's id, in the event's turn.

        A body that cannot be made or recorded leaves a gap event with its number. Where such a body
        `adds_messages`, the context is not known from there on.
        """
        return self._recorder.take(_WrittenEvent(self, build, extras, adds_messages))

    def note_refused(self, event: Event) -> None:
        """Note that the receiver will never take an event; called from the shipper's thread."""
        self._refused.append((event.seq, event.body if isinstance(event.body, Gap) else None))

    def release_context(self) -> None:
        """Forget the messages held, because nobody records with this writer any more."""
        self.builder.context = HeldContext(_message_key)

    def owed_gap(self, at: datetime | None = None) -> Event | None:
        """Return the gap event, of the time `at` or of now, for the oldest loss.

        None means that none is owed.
        """
        self._renew_producer()
        while self._refused:
            self._lose_refused(*self._refused.popleft())
        if not self._lost:
            return None
        now = at or datetime.now(UTC)
        gap = self.event(new_event_id(), self.take_seq(), now, self._lost.oldest_gap())
        self._gap_id = gap.event_id
        return gap

    def settle(self, event: Event, *, landed: bool) -> None:
        """Note whether the spool took an event of this writer."""
        if not landed:
            self._lost.add(NOT_TAKEN, event.seq, event.seq)
            self.builder.lose()
            self._recorder.owe_gap(self)
            return
        self.builder.keep(event)
        if event.event_id == self._gap_id:
            self._lost.drop_oldest()

    def take_seq(self) -> int:
        """Return the next number of this process's producer."""
        return self.builder.take_seq(self._renew_producer())

    def _renew_producer(self) -> str:
        """Return the producer id of this process; a forked child owes nothing for its parent."""
        producer_id = f"{self._recorder.producer_id}-{self._number}"
        if producer_id != self.producer_id:
            self.producer_id = producer_id
            self._lost.clear()
            self._refused.clear()
            self._recorder.watch_refusals(producer_id, self)
        return producer_id

    def _lose_refused(self, seq: int, gap: Gap | None) -> None:
        self._lost.add(REFUSED, seq, seq)
        if gap is not None and gap.from_seq is not None and gap.to_seq is not None:
            self._lost.add(gap.code, gap.from_seq, gap.to_seq)
        self.builder.lose()

    def event(
        self,
        event_id: EventId,
        seq: int,
        now: datetime,
        body: Body,
        extras: Extras | None = None,
    ) -> Event:
        """Return the event with the number `seq`, and fold its body into the context held."""
        given: Extras = extras or {}
        metadata, ext, ended_at = given.get("metadata"), given.get("ext"), given.get("ended_at")
        causes = given.get("caused_by", ())
        fields: EnvelopeFields = {
            "ended_at": ended_at,
            "caused_by": (causes,) if isinstance(causes, str) else tuple(causes),
            "parent_event_id": given.get("parent_event_id"),
            "trace_id": given.get("trace_id"),
            "span_id": given.get("span_id"),
            "parent_span_id": given.get("parent_span_id"),
            "source_step_id": given.get("source_step_id"),
            "links": tuple(given.get("links", ())),
            "usage": given.get("usage"),
            "cost": given.get("cost"),
            "latency_us": given.get("latency_us"),
            "status": given.get("status", "ok"),
            "metadata_json": None if metadata is None else json_text(metadata),
            "ext_json": None if ext is None else json_text(ext),
        }
        if "versions" in given:
            fields["versions"] = given["versions"]
        if "governance" in given:
            fields["governance"] = given["governance"]
        return self.builder.event(
            body,
            event_id=event_id,
            seq=seq,
            at=given["occurred_at"] if "occurred_at" in given else _not_after(now, ended_at),
            step=given.get("step"),
            **fields,
        )

    def remember(self, event: Event) -> None:
        """Remember the newest actions, which cause what follows."""
        if isinstance(event.body, Action):
            self.last_action = event.event_id
            if event.body.type in {"message", "generation"}:
                self.last_model_action = event.event_id


@dataclass(slots=True)
class _WrittenEvent:
    """One event of a writer, as the intake takes it."""

    writer: EventWriter
    build: Callable[[EventId], Body]
    extras: Extras
    adds_messages: bool
    event_id: EventId = field(default_factory=new_event_id)
    now: datetime = field(default_factory=lambda: datetime.now(UTC))
    redelivery: bool = False
    _seq: int | None = None
    _body: Body | None = None
    _made: bool = False

    def owed_gap(self) -> Event | None:
        return self.writer.owed_gap(self.now)

    def make(self) -> Event:
        self._body = self.build(self.event_id)
        self._seq = self.writer.take_seq()
        event = self.writer.event(self.event_id, self._seq, self.now, self._body, self.extras)
        self._made = True
        self.writer.remember(event)
        return event

    def substitute(self, error: Exception) -> Event:
        seq = self.writer.take_seq() if self._seq is None else self._seq
        failed = isinstance(error, RedactionFailed)
        number = seq if failed or self.adds_messages else None
        if self.adds_messages:
            self._keep_shown()
        code = REDACTION_FAILED if failed else NOT_RECORDABLE
        gap = Gap(code=code, detail=cause_of(error), from_seq=number, to_seq=number)
        return self.writer.event(new_event_id(), seq, self.now, gap)

    def settle(self, event: Event, *, landed: bool) -> None:
        self.writer.settle(event, landed=landed)

    def _keep_shown(self) -> None:
        """Keep the messages of an event that is not recorded, as far as they are known."""
        context = self.writer.builder.context
        if self._body is None:
            context.forget()
        elif not self._made:
            context.add(self.event_id, self._body)
        self.writer.builder.lose()


def _not_after(now: datetime, ended_at: datetime | None) -> datetime:
    """Return the time of an event that is recorded after its end: its end, else now."""
    return now if ended_at is None else min(now, ended_at)


def _message_key(message: Message) -> Message:
    return message
