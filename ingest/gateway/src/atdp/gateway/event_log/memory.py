"""An event log in memory, for tests of whatever writes to one.

Nothing in it survives the process.
"""

import zlib
from collections.abc import Sequence

from atdp.gateway.errors import EventLogUnavailable, EventRejected
from atdp.gateway.event_log.port import Fate, Position, Record, Wanted


class MemoryEventLog:
    """Keeps records in lists, one per partition; can be told to be unavailable."""

    def __init__(self, *, partitions: int = 4, max_record_bytes: int = 8 * 1024 * 1024) -> None:
        self.partitions: list[list[Record]] = [[] for _ in range(partitions)]
        self.available = True
        self._max_record_bytes = max_record_bytes

    @property
    def records(self) -> list[Record]:
        """All records, partition by partition."""
        return [record for partition in self.partitions for record in partition]

    async def append(
        self, records: Sequence[Record], *, wanted: Wanted | None = None
    ) -> list[Fate]:
        """See `EventLog.append`."""
        if wanted is not None and not await wanted():
            return [EventLogUnavailable("given up before it was sent")] * len(records)
        return [self._append(record) for record in records]

    def failure(self) -> str | None:
        """See `EventLog.failure`."""
        return None if self.available else "switched off"

    async def close(self) -> None:
        """Nothing to release."""

    def _append(self, record: Record) -> Fate:
        if not self.available:
            return EventLogUnavailable(
                "the event log is switched off; send again, marked as redelivery"
            )
        if len(record.value) > self._max_record_bytes:
            return EventRejected(
                f"a record of {len(record.value)} bytes is larger than {self._max_record_bytes}"
            )
        partition = zlib.crc32(record.key) % len(self.partitions)
        self.partitions[partition].append(record)
        return Position(partition, len(self.partitions[partition]) - 1)
