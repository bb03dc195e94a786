"""Event ids: time-ordered for live events, derived from content for imported ones.

An `event_id` is the idempotency key of the whole platform. Live events take a UUIDv7 (RFC 9562
§5.7), so that files sorted by time are nearly sorted by id. Importers derive the id from the
content instead: importing the same file twice gives the same events.

The ids of one process rise. The first id of each millisecond has 73 bits of the operating system's
randomness behind its time (12 of `rand_a`, 61 of `rand_b`); those that follow in the same
millisecond count up from it. Two ids of different processes are equal only where both fall into one
millisecond and their 73 bits meet. A million processes that each make a thousand ids in the same
millisecond have a chance of one in ten million that two of these are equal. A clock that is set
back leaves the time of the ids where it was, and they count on, until the clock has caught up.
"""

import hashlib
import itertools
import os
import threading
import time
import uuid
from datetime import datetime

from atdp.schemas.event import EventId

_UNIX_MS_BITS = 48
_VERSION_7 = 0x7 << 76
_VARIANT_RFC = 0b10 << 62
_RANDOM_MASK = ~((0xF << 76) | (0b11 << 62)) & ((1 << 80) - 1)
_RANDOM_BYTES = 10  # behind the time of one id
_POOL_BYTES = 40 * _RANDOM_BYTES  # asked for at once: a call takes longer than an id
_COUNTED_BITS = (1 << 47) - 1  # of the 48 behind the last hyphen; counting never fills the top bit
_VARIANT_DIGITS = "89ab"


def _uuid7(unix_ms: int, random_bytes: bytes) -> EventId:
    value = (unix_ms & ((1 << _UNIX_MS_BITS) - 1)) << 80
    value |= int.from_bytes(random_bytes, "big") & _RANDOM_MASK
    return EventId(str(uuid.UUID(int=value | _VERSION_7 | _VARIANT_RFC)))


class EventIdSource:
    """Makes the ids of one process; safe under threads, signal handlers and fork."""

    __slots__ = ("_lock", "_pool", "_run")

    def __init__(self) -> None:
        """Make the first id with fresh randomness."""
        self._run: tuple[int, str, itertools.count[int]] = (0, "", itertools.count())
        self.renew()

    def next(self, unix_ms: int) -> EventId:
        """Return an id of the time `unix_ms`, or of the latest one before where that is later."""
        run = self._run
        if unix_ms > run[0]:
            run = self._begin(unix_ms)
        # One call of a counter is atomic, so no two threads get the same number.
        return EventId(f"{run[1]}{next(run[2]):012x}")

    def renew(self) -> None:
        """Forget what a forked child shares with its parent."""
        self._lock = threading.RLock()
        self._pool = ""
        self._run = self._new_run(self._run[0])

    def _begin(self, unix_ms: int) -> "tuple[int, str, itertools.count[int]]":
        with self._lock:
            if unix_ms > self._run[0]:
                self._run = self._new_run(unix_ms)
            return self._run

    def _new_run(self, unix_ms: int) -> "tuple[int, str, itertools.count[int]]":
        """Return the ids of a millisecond: its time, the text before the counter, the counter."""
        pool = self._pool or os.urandom(_POOL_BYTES).hex()
        digits, self._pool = pool[: 2 * _RANDOM_BYTES], pool[2 * _RANDOM_BYTES :]
        time_digits = f"{unix_ms:012x}"
        variant = _VARIANT_DIGITS[int(digits[3], 16) & 3]
        prefix = f"{time_digits[:8]}-{time_digits[8:]}-7{digits[:3]}-{variant}{digits[4:7]}-"
        return unix_ms, prefix, itertools.count(int(digits[7:19], 16) & _COUNTED_BITS)


_source = EventIdSource()
os.register_at_fork(after_in_child=_source.renew)


def new_event_id(now_ms: int | None = None) -> EventId:
    """Return a new UUIDv7, greater than every one that this thread got before.

    With `now_ms`, in milliseconds since the epoch, it is a random one of that time.
    """
    if now_ms is not None:
        return _uuid7(now_ms, os.urandom(_RANDOM_BYTES))
    return _source.next(time.time_ns() // 1_000_000)


def deterministic_event_id(occurred_at: datetime, *content: str) -> EventId:
    """Return a UUIDv7 whose random part is derived from `content`.

    The same content and time give the same id on any machine.
    """
    digest = hashlib.sha256("\x1f".join(content).encode("utf-8", "surrogatepass")).digest()
    return _uuid7(int(occurred_at.timestamp() * 1000), digest[:_RANDOM_BYTES])
