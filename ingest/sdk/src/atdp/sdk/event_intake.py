"""The intake of events: one at a time, from the making of an event to its encoded record.

Events are made and appended under one lock, so the order of `seq` is the order in the spool. When
a signal handler or a finaliser emits while its own thread is inside, its event is taken right
after.
"""

import contextlib
import threading
import uuid
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from atdp.schemas import Event, EventId, SigningKey, encode, signed_headers
from atdp.sdk.causes import cause_of
from atdp.sdk.delivery_report import DeliveryLedger
from atdp.sdk.record_framing import SpoolRecord

Make: TypeAlias = Callable[[], Event]
"""Builds the event when its turn has come: numbers are given in the order of the spool."""
Substitute: TypeAlias = Callable[[Exception], Event]
"""Builds the gap event to record in place of one that cannot be built or encoded."""
Append: TypeAlias = Callable[[EventId, SpoolRecord], None]
"""Puts a record into the spool; never raises."""


@dataclass(frozen=True, slots=True)
class OfferedEvent:
    """One event to be taken; see `Recorder.take`."""

    event_id: EventId
    make: Make
    substitute: Substitute | None
    redelivery: bool


class EventIntake:
    """Takes the events of one recorder in one process."""

    def __init__(self, signing_key: SigningKey, ledger: DeliveryLedger, append: Append) -> None:
        """Sign with `signing_key`, hand records to `append` and count failures in `ledger`."""
        self.lock = threading.RLock()
        self._signing_key = signing_key
        self._ledger = ledger
        self._append = append
        self._thread_inside: int | None = None
        self._deferred: deque[OfferedEvent] = deque()

    def take(self, offered: OfferedEvent) -> None:
        """Build, encode and append one event in this thread; never raises."""
        if self._thread_inside == threading.get_ident():
            self._deferred.append(offered)
            return
        with self.lock:
            self._thread_inside = threading.get_ident()
            try:
                self._take_now(offered)
                while self._deferred:
                    self._take_now(self._deferred.popleft())
            finally:
                self._thread_inside = None

    def _take_now(self, offered: OfferedEvent) -> None:
        try:
            record = self._record(offered.make(), offered.redelivery)
        except Exception as error:  # noqa: BLE001 - the host's work goes on, whatever it passed in
            self._ledger.fail(offered.event_id, f"not recordable: {cause_of(error)}")
            if offered.substitute is not None:
                self._take_gap(offered.substitute, error)
        else:
            self._append(offered.event_id, record)

    def _take_gap(self, substitute: Substitute, error: Exception) -> None:
        # The cause that spoiled the event can spoil the gap too; the loss is counted already.
        with contextlib.suppress(Exception):
            gap = substitute(error)
            self._append(gap.event_id, self._record(gap, False))

    def _record(self, event: Event, redelivery: bool) -> SpoolRecord:
        value = encode(event)
        return SpoolRecord(
            record_id=uuid.UUID(event.event_id).bytes,
            key=event.key,
            value=value,
            headers=tuple(signed_headers(self._signing_key, value)),
            redelivery=redelivery,
        )
