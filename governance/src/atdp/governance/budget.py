"""How much time one record may take.

A record of megabytes of numbers can take minutes to scan; while it is scanned its Kafka transaction
runs out, is repeated, and runs out again. So the gate gives every record seconds of CPU time, and
what cannot be scanned in them is refused as `too_costly`: not scanned to the end is not scanned.
Detectors that run long ask now and then whether the budget is spent; outside of `spending` there is
none.

CPU time of the thread, not the clock: a machine that is busy with other things must not turn honest
records away.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from atdp.governance.errors import Refusal

RECORD_S = 20.0
"""Seconds of CPU time for one record: 2 MB of the slowest text known (numbers that look like
phones), 20 MB of ordinary text."""

_DEADLINE: ContextVar[float | None] = ContextVar("atdp_record_deadline", default=None)


@contextmanager
def spending(seconds: float) -> Iterator[None]:
    """Within it, `check_budget` refuses after `seconds` of CPU time of this thread."""
    token = _DEADLINE.set(time.thread_time() + seconds)
    try:
        yield
    finally:
        _DEADLINE.reset(token)


def check_budget() -> None:
    """Raise `Refusal` (`too_costly`) when the record in hand has spent its time."""
    deadline = _DEADLINE.get()
    if deadline is not None and time.thread_time() > deadline:
        raise Refusal("too_costly", "scanning the record takes longer than one record may take")
