"""The port `EventLog`: the gateway's view of a durable log, independent of Kafka.

Guarantee: when `append` returns a `LogPosition` for a record, the record survives the death of this
process and of the broker. Records of one key keep the order in which they were given, within one
call and between calls that follow each other. A record that comes back as an error may still be in
the log, or get there later. The sender sends it again under the same event id, marked as
redelivery; the lake keeps one copy of an event id. The log itself never retries in a way that
doubles a record.

Back-pressure: a log holds a bounded amount of unacknowledged data. `append` waits while the bound
is reached, and gives up with `EventLogUnavailable` when nothing is acknowledged for too long.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from atdp.gateway.errors import EventLogUnavailable, EventRejected


@dataclass(frozen=True, slots=True)
class LogRecord:
    """One signed event as it goes into the log: `value` is Avro, `key` is `tenant/trajectory`."""

    key: bytes
    value: bytes
    headers: Sequence[tuple[str, bytes]] = ()


@dataclass(frozen=True, slots=True)
class LogPosition:
    """The place of an appended record in the log."""

    partition: int
    offset: int


AppendResult = LogPosition | EventLogUnavailable | EventRejected
"""Appended; unknown, to be sent again as redelivery; or refused for good."""

StillWanted = Callable[[], Awaitable[bool]]
"""Returns whether the client still waits for the answer."""


class EventLog(Protocol):
    """A durable, ordered, partitioned log, written from one event loop."""

    async def append(
        self, records: Sequence[LogRecord], *, still_wanted: StillWanted | None = None
    ) -> list[AppendResult]:
        """Append records in order.

        Returns one result per record, once all of them are known; it does not raise for a record.
        `still_wanted` is called when it is the turn of the records. If the client no longer waits,
        nothing is sent, because the client may have sent the records again already.
        """
        ...

    def failure(self) -> str | None:
        """Return None while the log can work, else the reason why it cannot.

        `/readyz` shows the reason, so it quotes no event data.
        """
        ...

    async def close(self) -> None:
        """Finish what is in flight, then release threads and connections."""
        ...
