"""The counts of a recorder at one moment, for health checks and metrics."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

ShipperState: TypeAlias = Literal["running", "retrying", "stopped", "not_started"]


@dataclass(frozen=True, kw_only=True, slots=True)
class RecorderStats:
    """The counts of one recorder in this process, since it was made.

    They are read without a lock, so two of them may be of slightly different moments.
    """

    emitted: int
    """Events that the spool took; they are delivered, pending, or refused by the receiver."""
    delivered: int
    pending: int
    """Events in the spool."""
    dropped: int
    """Events that the spool did not take."""
    failed: int
    """Events that could not be recorded, or that the receiver will never take."""
    recovered: int
    """Events of dead processes that this one has delivered; part of no other count."""
    spool_bytes: int
    """Bytes of pending events."""
    oldest_pending_s: float | None
    """Seconds since the shipper first saw the oldest pending event, or another one shortly after
    it; None: it has seen none that is still pending."""
    recovering_bytes: int
    """Bytes of dead processes' events that wait to be sent again, in the spools taken so far."""
    damaged_bytes: int
    """Bytes of spools that could not be read back."""
    shipper: ShipperState
    """`retrying`: the receiver did not take the newest records, which wait to be sent again.
    `not_started`: nothing was recorded since a fork. `stopped`: the recorder is closed, or its
    thread is dead."""
    last_errors: Mapping[str, str]
    """The newest reason by code: `dropped`, `failed` (not recordable or refused), `retry` (the
    receiver asked for it), `sender` and `spool` (they failed). A reason names no value of an event.
    """
