"""The port "append events durably": what the gateway needs from a log, and nothing of how Kafka does it.

Guarantee: when `append` returns a `Position` for a record, the record survives the death of this
process and of the broker. Records of one key keep the order in which they were given, within a call
and between calls that follow each other. A record that comes back as an error may still be in the
log, or get there later; whoever sends it again must say so (`redelivery`), and then those who land
it look it up by its event id. The log itself never retries in a way that doubles a record.

Back-pressure: a log holds a bounded amount of unacknowledged data. `append` waits while the bound
is reached and gives up with `EventLogUnavailable` when nothing moves for too long.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from atdp.gateway.errors import EventLogUnavailable, EventRejected


@dataclass(frozen=True)
class Record:
    """One signed event as it goes into the log: `value` is Avro, `key` is `tenant/trajectory`."""

    key: bytes
    value: bytes
    headers: Sequence[tuple[str, bytes]] = ()


@dataclass(frozen=True)
class Position:
    """Where a record landed."""

    partition: int
    offset: int


Fate = Position | EventLogUnavailable | EventRejected
"""Landed; unknown, send again as redelivery; or never acceptable."""

Wanted = Callable[[], Awaitable[bool]]
"""Whether whoever asked is still there."""


class EventLog(Protocol):
    """A durable, ordered, partitioned log, written from one event loop."""

    async def append(
        self, records: Sequence[Record], *, wanted: Wanted | None = None
    ) -> list[Fate]:
        """Append in order.

        Returns the fate of each record, only once all are known. Does not raise for them. `wanted`
        is asked when their turn has come: if nobody waits for them any more nothing is sent, since
        whoever gave up may have sent them again already.
        """
        ...

    def failure(self) -> str | None:
        """None while the log can work; else why it cannot (shown by `/readyz`, never event data)."""
        ...

    async def close(self) -> None:
        """Finish what is in flight, then release threads and connections."""
        ...
