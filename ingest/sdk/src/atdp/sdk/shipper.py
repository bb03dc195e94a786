"""The background thread that moves spools to the sender.

At least once, in order per key: records go out in the order of their spool; when the receiver asks
for a retry, the shipper lets everything under way come back, goes back to each spool's cursor and
sends again, marked as redelivery, after a growing pause. It also looks for folders of dead
processes, now and then, and ships what they left.

The host's thread must not feel this one: it works in slices of some 64 KB (between which the
interpreter lock is free), sleeps when there is nothing to do, and whoever appends wakes it only
when it says that it sleeps.
"""

import contextlib
import random
import threading
import time
import uuid
from collections.abc import Callable

from atdp.schemas import EventId
from atdp.sdk.causes import cause_of
from atdp.sdk.delivery_report import DeliveryLedger
from atdp.sdk.in_flight import Lane
from atdp.sdk.record_framing import SpoolRecord
from atdp.sdk.senders.port import Receipt, Sender
from atdp.sdk.spool import Spool

SLICE_BYTES = (
    64 * 1024
)  # read and submitted in one go: about half a millisecond of the interpreter lock
UNDER_WAY_RECORDS = (
    10_000  # submitted and without receipt; bounds memory, and what a retry sends again
)
UNDER_WAY_BYTES = 32 * 1024 * 1024
LINGER_S = 0.005  # pause after waking, so that a burst of emits makes one batch
POLL_S = 0.05  # longest wait for receipts while new records may be waiting
ADOPT_EVERY_S = 5.0  # how often to look for folders of processes that died
BACK_OFF_S = (0.1, 5.0)  # first and longest pause before sending again


class Shipper:
    """Ships one recorder's spool, and those it adopts, through one sender."""

    def __init__(
        self, spool: Spool, sender: Sender, ledger: DeliveryLedger, adopt: Callable[[], list[Spool]]
    ) -> None:
        """Prepare; `adopt` gives spools that dead processes left, now owned by this one."""
        self.asleep = False
        self._own = Lane(spool, adopted=False)
        self._lanes = [self._own]
        self._sender = sender
        self._ledger = ledger
        self._adopt = adopt
        self._next_adoption = 0.0
        self._under_way: dict[int, tuple[Lane, int, SpoolRecord]] = {}
        self._under_way_bytes = 0
        self._next_token = 0
        self._back_off_s = 0.0
        self._resume_at = 0.0
        self._retry_asked = False
        self._stopping = False
        self._wake = threading.Event()
        self._progress = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="atdp-shipper", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def wake(self) -> None:
        """Something was appended while the thread slept."""
        self.asleep = False
        self._wake.set()

    @property
    def recovering_bytes(self) -> int:
        """Bytes that dead processes left and that are not delivered yet."""
        return sum(lane.pending_bytes for lane in self._lanes if lane.adopted)

    def wait_drained(self, timeout_s: float) -> bool:
        """Wait until everything taken so far, and everything dead processes left, is settled; False when time ran out."""
        deadline = time.monotonic() + timeout_s
        target = self._own.spool.end
        self._next_adoption = 0.0
        self.wake()
        with self._progress:
            while not self._drained(target):
                left = deadline - time.monotonic()
                if left <= 0 or not self._thread.is_alive():
                    return False
                self._progress.wait(min(left, POLL_S))
        return True

    def stop(self, timeout_s: float) -> None:
        """End the thread and let go of the spools; what is not settled stays in them."""
        self._stopping = True
        self.wake()
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            return  # a sender that hangs keeps its spools locked until the process ends
        for lane in self._lanes:
            lane.spool.close()

    def abandon(self) -> None:
        """In a forked child, where the thread does not exist: forget everything."""
        for lane in self._lanes:
            lane.spool.abandon()

    def _drained(self, target: int) -> bool:
        looked_for_adoption = self._next_adoption > 0
        return looked_for_adoption and self._own.spool.cursor >= target and len(self._lanes) == 1

    def _run(self) -> None:
        while not self._stopping:
            try:
                self._work()
            except Exception as error:  # noqa: BLE001 - the loop must survive whatever a sender or a disk does
                self._ledger.warn_once("sending events failed", cause_of(error))
                self._start_over()
        with contextlib.suppress(
            Exception
        ):  # the thread ends here; nobody could act on it, and nothing may be printed
            self._sender.close(0.0)

    def _work(self) -> None:
        if time.monotonic() >= self._next_adoption:
            self._look_for_the_dead()
        submitted = 0 if self._holding_back() else sum(self._submit(lane) for lane in self._lanes)
        if self._under_way:
            self._settle(self._sender.poll(0.0 if submitted else POLL_S))
        elif self._retry_asked:
            self._go_back()
        elif not submitted:
            self._rest()
        self._let_go_of_adopted()
        with self._progress:
            self._progress.notify_all()

    def _look_for_the_dead(self) -> None:
        try:
            found = [Lane(spool, adopted=True) for spool in self._adopt()]
            self._lanes = [*self._lanes, *found]
            for lane in found:
                self._count_damage(lane)
        except OSError as error:
            self._ledger.warn_once("the spool folder cannot be searched", str(error))
        self._next_adoption = time.monotonic() + ADOPT_EVERY_S

    def _holding_back(self) -> bool:
        return (
            self._retry_asked
            or time.monotonic() < self._resume_at
            or len(self._under_way) >= UNDER_WAY_RECORDS
            or self._under_way_bytes >= UNDER_WAY_BYTES
        )

    def _submit(self, lane: Lane) -> int:
        submitted = 0
        for start, record in lane.unsent(SLICE_BYTES):
            token = self._next_token
            if not self._sender.submit(token, record):
                break
            self._next_token += 1
            self._under_way[token] = (lane, start, record)
            self._under_way_bytes += len(record.value)
            submitted += 1
        self._count_damage(lane)
        return submitted

    def _count_damage(self, lane: Lane) -> None:
        if (found := lane.spool.skipped_bytes - lane.counted_bytes) > 0:
            lane.counted_bytes += found
            self._ledger.lose_bytes(found)

    def _settle(self, receipts: list[Receipt]) -> None:
        for receipt in receipts:
            found = self._under_way.pop(receipt.token, None)
            if found is None:
                continue
            lane, start, record = found
            self._under_way_bytes -= len(record.value)
            if receipt.verdict == "retry":
                self._retry_asked = True
                self._ledger.warn_once(
                    "events wait in the spool, the receiver asks to retry", receipt.reason
                )
                continue
            event_id = EventId(str(uuid.UUID(bytes=record.record_id)))
            if receipt.verdict == "delivered":
                self._back_off_s = 0.0
                self._ledger.deliver(event_id, own=not lane.adopted)
            else:
                self._ledger.refuse(
                    event_id, f"refused by the receiver: {receipt.reason}", own=not lane.adopted
                )
            lane.settle(start)
        if receipts:
            for lane in self._lanes:
                lane.advance()

    def _go_back(self) -> None:
        for lane in self._lanes:
            lane.rewind()
        first, longest = BACK_OFF_S
        self._back_off_s = min(longest, max(first, 2 * self._back_off_s))
        jitter = random.uniform(0.5, 1.0)  # noqa: S311 - spreads retries of many agents, guards nothing
        self._resume_at = time.monotonic() + self._back_off_s * jitter
        self._retry_asked = False

    def _start_over(self) -> None:
        self._sender.reset()
        self._under_way.clear()
        self._under_way_bytes = 0
        self._go_back()

    def _rest(self) -> None:
        self._wake.clear()
        self.asleep = True
        now = time.monotonic()
        due = self._resume_at if self._resume_at > now else self._next_adoption
        # An append may have come between the last look and `asleep`: look again before sleeping.
        if self._stopping or (
            self._resume_at <= now and not all(lane.drained for lane in self._lanes)
        ):
            self.asleep = False
            return
        self._wake.wait(max(0.0, due - now))
        self.asleep = False
        if not self._stopping:
            time.sleep(LINGER_S)

    def _let_go_of_adopted(self) -> None:
        for lane in self._lanes:
            if lane.adopted and lane.drained:
                lane.advance()
                lane.spool.close()
                self._lanes = [other for other in self._lanes if other is not lane]
