"""What became of every event that this process emitted.

Four fates: *pending* (in the spool, will be sent), *delivered* (the event log has it durably),
*dropped* (never taken: the spool was full or the recorder closed), *failed* (taken or offered, but
it can never be delivered: it does not fit the schema or the receiver refuses it).

Counters have one writer each (the emitting side under the recorder's lock, or the shipper thread),
so no lock is needed here, and asking for a report from a signal handler cannot block.
"""

import itertools
import logging
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from atdp.schemas import EventId

_log = logging.getLogger("atdp.sdk")
_INDEX = re.compile(r"\[\d+\]")

MAX_REASONS = 50  # different reasons that are counted one by one; indexes in paths must not fill the host's memory
OTHER_REASONS = "other reasons"

Fate: TypeAlias = Literal["delivered", "pending", "dropped", "failed"]
REMEMBERED = 100_000  # event ids whose fate is kept (about 20 MB); older ones stay counted


@dataclass(frozen=True, kw_only=True, slots=True)
class FlushReport:
    """Where the events are that this recorder was given in this process, since it was made."""

    delivered: int
    pending: int
    dropped: int
    failed: int
    recovered: int
    """Events of processes that died, delivered by this one; not part of the other counts."""
    recovering_bytes: int
    """Bytes of such events that wait to be sent again."""
    damaged_bytes: int
    """Bytes of spools that could not be read back; events that lay in them are lost, own ones stay
    pending."""
    fates: Mapping[EventId, Fate]
    """Fate by event id, of the newest events (see `REMEMBERED`)."""
    reasons: Mapping[str, int]
    """Why events were dropped or failed, and how many for each reason; beyond `MAX_REASONS`
    different ones, together as `OTHER_REASONS`.

    A reason names codes, places and types, never a value of an event.
    """

    @property
    def complete(self) -> bool:
        """Nothing is pending and nothing was lost."""
        return not (
            self.pending
            or self.dropped
            or self.failed
            or self.recovering_bytes
            or self.damaged_bytes
        )


class DeliveryLedger:
    """Counts events by fate, remembers the newest ones, and says the first loss of each kind once."""

    def __init__(self) -> None:
        """Start at zero."""
        self.accepted = 0
        self.dropped = 0
        self.unencodable = 0
        self.delivered = 0
        self.refused = 0
        self.recovered = 0
        self.damaged_bytes = 0
        self._fates: dict[EventId, Fate] = {}
        self._reasons_emitting: Counter[str] = Counter()
        self._reasons_shipping: Counter[str] = Counter()
        self._said: set[str] = set()

    def accept(self, event_id: EventId) -> None:
        """The spool took an event."""
        self.accepted += 1
        self._remember(event_id, "pending")

    def drop(self, event_id: EventId, reason: str) -> None:
        """The spool did not take an event."""
        self.dropped += 1
        self._lose(event_id, "dropped", reason, self._reasons_emitting)

    def take_back(self, event_id: EventId, reason: str) -> None:
        """An accepted event did not get into the spool after all."""
        self.accepted -= 1
        self.drop(event_id, reason)

    def fail(self, event_id: EventId, reason: str) -> None:
        """An event has no encoding."""
        self.unencodable += 1
        self._lose(event_id, "failed", reason, self._reasons_emitting)

    def deliver(self, event_id: EventId, *, own: bool) -> None:
        """The event log has an event; `own` says whether this process emitted it."""
        if not own:
            self.recovered += 1
            return
        self.delivered += 1
        if event_id in self._fates:
            self._fates[event_id] = "delivered"

    def refuse(self, event_id: EventId, reason: str, *, own: bool) -> None:
        """The receiver will never take an event."""
        if own:
            self.refused += 1
        self._lose(event_id, "failed", reason, self._reasons_shipping)

    def lose_bytes(self, count: int) -> None:
        """A part of a spool is not readable any more."""
        self.damaged_bytes += count
        self.warn_once(
            "a part of the spool is damaged",
            f"{count} bytes could not be read back and are kept aside, *.damaged",
        )

    def report(self, recovering_bytes: int) -> FlushReport:
        """The state now."""
        delivered, refused = self.delivered, self.refused
        return FlushReport(
            delivered=delivered,
            pending=max(0, self.accepted - delivered - refused),
            dropped=self.dropped,
            failed=refused + self.unencodable,
            recovered=self.recovered,
            recovering_bytes=recovering_bytes,
            damaged_bytes=self.damaged_bytes,
            fates=dict(self._fates),
            reasons=self._reasons_emitting + self._reasons_shipping,
        )

    def warn_once(self, what: str, detail: str) -> None:
        """Log a condition the first time that it is met."""
        if what not in self._said:
            self._said.add(what)
            _log.warning("%s: %s (said once; flush() has the counts)", what, detail)

    def _lose(self, event_id: EventId, fate: Fate, reason: str, reasons: Counter[str]) -> None:
        counted = _INDEX.sub("[*]", reason)
        reasons[counted if counted in reasons or len(reasons) < MAX_REASONS else OTHER_REASONS] += 1
        self._remember(event_id, fate)
        self.warn_once(f"an event was {fate}", reason)

    def _remember(self, event_id: EventId, fate: Fate) -> None:
        self._fates[event_id] = fate
        if len(self._fates) > REMEMBERED:
            oldest = next(itertools.islice(self._fates, 1))
            self._fates.pop(oldest, None)
