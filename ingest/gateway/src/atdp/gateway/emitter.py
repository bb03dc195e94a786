"""From event values to acknowledged records: encode, sign with the caller's key, append, wait."""

import time
from collections.abc import Collection, Sequence

from atdp.gateway.errors import EventLogUnavailable, EventRejected
from atdp.gateway.event_log import AppendResult, EventLog, LogPosition, LogRecord, StillWanted
from atdp.gateway.metrics import GatewayMetrics
from atdp.schemas import (
    Event,
    InvalidRecord,
    SigningKey,
    UnsignedRecord,
    check,
    encode,
    sign_together,
)


class Emitter:
    """Signs events and appends them to the event log."""

    def __init__(
        self, log: EventLog, metrics: GatewayMetrics, *, topic: str, max_event_bytes: int
    ) -> None:
        """`topic` is the one that `log` appends to, and that records are signed for."""
        self._log = log
        self._topic = topic
        self._metrics = metrics
        self._max_event_bytes = max_event_bytes

    def record(self, event: Event, *, redelivery: bool = False) -> UnsignedRecord | EventRejected:
        """Return the record of an event, or the reason why it cannot have one."""
        try:
            value = encode(event)
        except InvalidRecord as error:
            return EventRejected(
                f"the event does not fit the schema: {error}", "contract_violation"
            )
        if violations := check(event, encodable=True):
            broken = "; ".join(map(str, violations))
            return EventRejected(f"the event breaks the contract: {broken}", "contract_violation")
        if len(value) > self._max_event_bytes:
            return EventRejected(
                f"the event has {len(value)} bytes encoded, "
                f"at most {self._max_event_bytes} are taken; send large content as a reference",
                "event_too_large",
            )
        return UnsignedRecord(event.key, value, redelivery)

    async def append(
        self,
        records: Sequence[UnsignedRecord | EventRejected],
        key: SigningKey,
        *,
        source: str,
        still_wanted: StillWanted | None = None,
    ) -> list[AppendResult]:
        """Sign and append the records, keep the rejections; returns one result each, in order.

        `source` labels the metrics; for `still_wanted` see `EventLog.append`.
        """
        unsigned = [record for record in records if isinstance(record, UnsignedRecord)]
        signatures = sign_together(key, self._topic, unsigned)
        accepted = [
            LogRecord(record.key, record.value, headers)
            for record, headers in zip(unsigned, signatures, strict=True)
        ]
        began = time.perf_counter()
        appended = iter(await self._log.append(accepted, still_wanted=still_wanted))
        if accepted:
            self._metrics.append_seconds.observe(time.perf_counter() - began)
        results: list[AppendResult] = [
            next(appended) if isinstance(record, UnsignedRecord) else record for record in records
        ]
        self._count(results, source)
        return results

    async def emit(
        self,
        events: Sequence[Event],
        key: SigningKey,
        *,
        redelivered: Collection[str] = (),
        source: str,
    ) -> list[AppendResult]:
        """Sign and append events; those whose id is in `redelivered` may be in the log already."""
        records = [self.record(event, redelivery=event.event_id in redelivered) for event in events]
        return await self.append(records, key, source=source)

    def _count(self, results: Sequence[AppendResult], source: str) -> None:
        acknowledged = sum(isinstance(result, LogPosition) for result in results)
        unacknowledged = sum(isinstance(result, EventLogUnavailable) for result in results)
        rejected = sum(isinstance(result, EventRejected) for result in results)
        self._metrics.events_acknowledged.labels(source).inc(acknowledged)
        self._metrics.events_unacknowledged.inc(unacknowledged)
        self._metrics.events_rejected.labels("unfit").inc(rejected)
