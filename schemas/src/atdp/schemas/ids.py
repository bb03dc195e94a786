"""Event ids: time-ordered for live events, derived from content for imported ones.

An `event_id` is the idempotency key of the whole platform. Live events take a random UUIDv7 (RFC
9562 §5.7), so that files sorted by time are nearly sorted by id. Importers derive the id from the
content instead: importing the same file twice gives the same events.
"""

import hashlib
import os
import time
import uuid
from datetime import datetime

from atdp.schemas.event import EventId

_UNIX_MS_BITS = 48
_VERSION_7 = 0x7 << 76
_VARIANT_RFC = 0b10 << 62
_RANDOM_MASK = ~((0xF << 76) | (0b11 << 62)) & ((1 << 80) - 1)


def new_event_id(now_ms: int | None = None) -> EventId:
    """Return a random UUIDv7; `now_ms` is milliseconds since the epoch (default: now)."""
    return _uuid7(time.time_ns() // 1_000_000 if now_ms is None else now_ms, os.urandom(10))


def deterministic_event_id(occurred_at: datetime, *content: str) -> EventId:
    """Return a UUIDv7 whose random part is derived from `content`.

    The same content and time give the same id on any machine.
    """
    digest = hashlib.sha256("\x1f".join(content).encode("utf-8", "surrogatepass")).digest()
    return _uuid7(int(occurred_at.timestamp() * 1000), digest[:10])


def _uuid7(unix_ms: int, random_bytes: bytes) -> EventId:
    value = (unix_ms & ((1 << _UNIX_MS_BITS) - 1)) << 80
    value |= int.from_bytes(random_bytes, "big") & _RANDOM_MASK
    return EventId(str(uuid.UUID(int=value | _VERSION_7 | _VARIANT_RFC)))
