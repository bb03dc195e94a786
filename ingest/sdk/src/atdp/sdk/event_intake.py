"""The intake of events: one at a time, from the making of an event to its encoded record.

Events are made and appended under one lock, so the order of `seq` is the order in the spool. When
a signal handler or a finaliser emits while its own thread is inside, its event is taken right
after.

Each event is settled once: its maker is told whether the spool took it. A maker that owes a gap
event for earlier losses gets it into the spool first. While the gap finds no room, neither does the
event: it is made, because it takes a number, and dropped. After an event that found room, the gaps
that other makers owe are written, since these may never make an event again.
"""

import contextlib
import threading
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from atdp.schemas import Event, EventId, check, encode
from atdp.sdk.causes import cause_of
from atdp.sdk.delivery_report import DeliveryLedger
from atdp.sdk.errors import ContractBroken
from atdp.sdk.record_framing import SpoolRecord

Append: TypeAlias = Callable[[EventId, SpoolRecord], str | None]
"""Puts a record into the spool; never raises, and returns the reason why it could not."""


class GapOwner(Protocol):
    """A maker of events that may owe gap events. All methods run in a turn of the intake."""

    def owed_gap(self) -> Event | None:
        """Return the next gap event that is owed; None when none is."""

    def settle(self, event: Event, *, landed: bool) -> None:
        """Note whether the spool took an event of this maker."""


class OfferedEvent(GapOwner, Protocol):
    """One event to be taken. All methods run in its turn, in the thread that offers it."""

    @property
    def event_id(self) -> EventId:
        """The event's id, known before the event is made."""

    @property
    def redelivery(self) -> bool:
        """True for an event that may have been emitted before."""

    def make(self) -> Event:
        """Build the event: numbers are given in the order of the spool."""

    def substitute(self, error: Exception) -> Event | None:
        """Build the gap event to record in place of one that cannot be built or encoded."""


@dataclass(frozen=True, slots=True)
class SingleEvent:
    """An event that stands for itself: nothing is remembered of it."""

    event_id: EventId
    build: Callable[[], Event]
    redelivery: bool = False

    def owed_gap(self) -> None:
        """Return None: no gap is owed."""

    def make(self) -> Event:
        """Build the event."""
        return self.build()

    def substitute(self, error: Exception) -> None:
        """Return None: nothing takes the place of the event."""

    def settle(self, event: Event, *, landed: bool) -> None:
        """Do nothing."""


class EventIntake:
    """Takes the events of one recorder in one process."""

    def __init__(
        self,
        ledger: DeliveryLedger,
        append: Append,
        owing: Callable[[], Iterable[GapOwner]],
    ) -> None:
        """Hand records to `append` and count failures in `ledger`.

        `owing` gives the makers that owe gap events, each of them once.
        """
        self.lock = threading.RLock()
        self._ledger = ledger
        self._append = append
        self._owing = owing
        self._thread_inside: int | None = None
        self._deferred: deque[OfferedEvent] = deque()

    def take(self, offered: OfferedEvent) -> None:
        """Build, encode and append one event in this thread; never raises."""
        if self._thread_inside == threading.get_ident():
            self._deferred.append(offered)
            return
        with self._turn():
            self._take_now(offered)

    def write_owed_gaps(self) -> bool:
        """Append the gap events that are owed, as far as there is room.

        Returns False when none was owed, or when this thread is inside already.
        """
        if self._thread_inside == threading.get_ident():
            return False
        with self._turn():
            return self._write_owed_gaps()

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        with self.lock:
            self._thread_inside = threading.get_ident()
            try:
                yield
                while self._deferred:
                    self._take_now(self._deferred.popleft())
            finally:
                self._thread_inside = None

    def _write_owed_gaps(self) -> bool:
        written = False
        for owner in self._owing():
            if self._take_owed_gaps(owner) is not None:
                break
            written = True
        return written

    def _take_now(self, offered: OfferedEvent) -> None:
        refusal = self._take_owed_gaps(offered)
        try:
            event = offered.make()
            record = self._record(event, offered.redelivery)
        except Exception as error:  # noqa: BLE001 - the host's work goes on, whatever it passed in
            self._ledger.fail(offered.event_id, f"not recordable: {cause_of(error)}")
            self._take_substitute(offered, error, refusal)
        else:
            refusal = refusal or self._append(event.event_id, record)
            if refusal is not None:
                self._ledger.drop(offered.event_id, refusal)
            offered.settle(event, landed=refusal is None)
            if refusal is None:
                self._write_owed_gaps()

    def _take_owed_gaps(self, owner: GapOwner) -> str | None:
        """Append the gap events that are owed; return the reason why one could not be."""
        # The cause that spoils a gap, such as a tenant that cannot be encoded, spoils the event
        # too, where it is counted.
        with contextlib.suppress(Exception):
            while (gap := owner.owed_gap()) is not None:
                refusal = self._append_gap(owner, gap)
                if refusal is not None:
                    return refusal
        return None

    def _take_substitute(
        self, offered: OfferedEvent, error: Exception, refusal: str | None
    ) -> None:
        # The cause that spoiled the event can spoil the gap too; the loss is counted already.
        with contextlib.suppress(Exception):
            gap = offered.substitute(error)
            if gap is None:
                return
            if refusal is None:
                self._append_gap(offered, gap)
            else:
                offered.settle(gap, landed=False)

    def _append_gap(self, owner: GapOwner, gap: Event) -> str | None:
        landed = False
        try:
            refusal = self._append(gap.event_id, self._record(gap, False))
            landed = refusal is None
        finally:
            owner.settle(gap, landed=landed)
        return refusal

    def _record(self, event: Event, redelivery: bool) -> SpoolRecord:
        value = encode(event)
        if violations := check(event, encodable=True):
            raise ContractBroken("; ".join(map(str, violations)))
        return SpoolRecord(
            record_id=uuid.UUID(event.event_id).bytes,
            key=event.key,
            value=value,
            redelivery=redelivery,
        )
