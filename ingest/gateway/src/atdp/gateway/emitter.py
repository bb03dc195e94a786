"""From event values to acknowledged records: encode, sign with the caller's key, append, wait."""

import time
from collections.abc import Collection, Sequence

from atdp.gateway.errors import EventLogUnavailable, EventRejected
from atdp.gateway.event_log import EventLog, Fate, Position, Record, Wanted
from atdp.gateway.metrics import GatewayMetrics
from atdp.schemas import Event, InvalidRecord, SigningKey, encode, signed_headers


class Emitter:
    """Signs events and puts them into the event log."""

    def __init__(self, log: EventLog, metrics: GatewayMetrics, *, max_event_bytes: int) -> None:
        self._log = log
        self._metrics = metrics
        self._max_event_bytes = max_event_bytes

    def record(
        self, event: Event, key: SigningKey, *, redelivery: bool = False
    ) -> Record | EventRejected:
        """The signed record of an event, or why there can be none."""
        try:
            value = encode(event)
        except InvalidRecord as error:
            return EventRejected(f"the event does not fit the schema: {error}")
        if len(value) > self._max_event_bytes:
            return EventRejected(
                f"the event has {len(value)} bytes encoded, at most {self._max_event_bytes} are taken; "
                "send large content as a reference"
            )
        return Record(event.key, value, signed_headers(key, value, redelivery=redelivery))

    async def append(
        self,
        records: Sequence[Record | EventRejected],
        *,
        source: str,
        wanted: Wanted | None = None,
    ) -> list[Fate]:
        """Append what are records, keep what are rejections; one fate each, in order (`wanted`: see `EventLog.append`)."""
        good = [record for record in records if isinstance(record, Record)]
        began = time.perf_counter()
        fates = iter(await self._log.append(good, wanted=wanted))
        if good:
            self._metrics.append_seconds.observe(time.perf_counter() - began)
        merged: list[Fate] = [next(fates) if isinstance(each, Record) else each for each in records]
        acknowledged = sum(isinstance(fate, Position) for fate in merged)
        self._metrics.events_acknowledged.labels(source).inc(acknowledged)
        self._metrics.events_unacknowledged.inc(
            sum(isinstance(fate, EventLogUnavailable) for fate in merged)
        )
        self._metrics.events_rejected.labels("unfit").inc(
            sum(isinstance(fate, EventRejected) for fate in merged)
        )
        return merged

    async def emit(
        self,
        events: Sequence[Event],
        key: SigningKey,
        *,
        redelivered: Collection[str] = (),
        source: str,
    ) -> list[Fate]:
        """Sign and append `events`; those whose id is in `redelivered` may be in the log already."""
        records = [
            self.record(event, key, redelivery=event.event_id in redelivered) for event in events
        ]
        return await self.append(records, source=source)
