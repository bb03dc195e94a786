"""One spool on its way out: what was sent, what was acknowledged, what has to go again.

Receipts come in any order, the cursor only moves over an unbroken run of settled records. When the
receiver wants records again, the lane goes back to its cursor and sends what is not settled, marked
as a redelivery: whoever may have been sent before says so.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import replace

from atdp.sdk.record_framing import SpoolRecord
from atdp.sdk.spool import Spool, Stored


class Lane:
    """The read position, the window of records under way and the cursor of one spool."""

    def __init__(self, spool: Spool, *, adopted: bool) -> None:
        """Start at the spool's cursor; what an adopted spool already holds may have been sent by its dead owner."""
        self.spool = spool
        self.adopted = adopted
        self.counted_bytes = 0  # damage that somebody has been told of
        self._position = spool.cursor
        self._sent_before = spool.end if adopted else spool.cursor
        self._under_way: deque[Stored] = deque()
        self._settled: set[int] = set()

    @property
    def drained(self) -> bool:
        """Every record of the spool is settled."""
        return not self._under_way and self._position >= self.spool.end

    @property
    def pending_bytes(self) -> int:
        """Bytes of the spool that are not settled."""
        return self.spool.end - self.spool.cursor

    def unsent(self, max_bytes: int) -> Iterator[tuple[int, SpoolRecord]]:
        """Records to submit next, each with its position; a record counts as sent once the iterator moved past it."""
        batch = self.spool.read(self._position, max_bytes)
        for stored in batch.records:
            if stored.start not in self._settled:
                again = stored.start < self._sent_before
                yield (
                    stored.start,
                    replace(stored.record, redelivery=True) if again else stored.record,
                )
            self._under_way.append(stored)
            self._position = stored.end
        self._position = batch.next_position

    def settle(self, start: int) -> None:
        """The record at `start` needs no more sending."""
        self._settled.add(start)

    def advance(self) -> None:
        """Move the spool's cursor over the run of settled records."""
        while self._under_way and self._under_way[0].start in self._settled:
            self._settled.remove(self._under_way.popleft().start)
        self.spool.acknowledge(self._under_way[0].start if self._under_way else self._position)

    def rewind(self) -> None:
        """Send again what is not settled."""
        self.advance()
        self._sent_before = max(self._sent_before, self._position)
        self._position = self._under_way[0].start if self._under_way else self._position
        self._under_way.clear()
