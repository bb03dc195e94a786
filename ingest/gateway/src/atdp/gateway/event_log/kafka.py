"""The event log on Kafka: idempotent producer, `acks=all`, delivery awaited in asyncio.

One thread per log (not per call) polls librdkafka for delivery reports. The reports are collected
in a queue. `call_soon_threadsafe` wakes the event loop once per burst, and the loop resolves one
future per `append`. confluent-kafka's own `AIOProducer` was measured against it: it hands each
batch to a thread pool, waits for its buffer time-out, and takes no record headers.

Limit: `max_in_flight_bytes` of values plus keys. They are counted here (`byte_limiter`), because
librdkafka raises an error when its own queue is full instead of waiting.

A fatal producer error (fenced, out of sequence) is final for the producer: `failure()` reports it,
and the service's live check asks for a restart.
"""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from atdp.gateway.errors import EventLogUnavailable, EventRejected
from atdp.gateway.event_log.byte_limiter import ByteLimiter
from atdp.gateway.event_log.port import AppendResult, LogPosition, LogRecord, StillWanted

_log = logging.getLogger("atdp.gateway.kafka")

# Errors that no retry can repair, because the record itself is the problem.
_REJECTIONS = frozenset(
    {KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_RECORD, KafkaError._INVALID_ARG}
)


# The raw topic takes 8 MiB per record (schemas/topics.toml), which leaves a little for headers.
_MAX_REQUEST_BYTES = 8 * 1024 * 1024
# librdkafka's limit on the number of records; so high that only the limit in bytes ever applies.
_MAX_QUEUED = 1_000_000


@dataclass(slots=True)
class _Batch:
    """One `append` in flight."""

    results: list[AppendResult | None]
    missing: int
    done: "asyncio.Future[None]"


@dataclass(frozen=True, slots=True)
class _Report:
    """The delivery report of the record at `index` of a batch."""

    batch: _Batch
    index: int
    size: int
    result: AppendResult


class KafkaEventLog:
    """Appends to one topic. Create it inside the running event loop that will use it."""

    def __init__(
        self,
        topic: str,
        config: Mapping[str, Any],
        *,
        delivery_timeout_s: float = 20.0,
        queue_timeout_s: float = 5.0,
        max_in_flight_bytes: int = 64 * 1024 * 1024,
    ) -> None:
        """`config` holds librdkafka properties (`KafkaSettings.config()`).

        Settings of durability in `config` have no effect. An append is answered within
        `queue_timeout_s` + `delivery_timeout_s`. This must be less than the time that clients wait
        (the SDK: 30 s), else a record could be sent after the client has sent it again.
        """
        self._topic = topic
        self._loop = asyncio.get_running_loop()
        self._fatal: str | None = None
        self._down: str | None = None
        self._delivery_timeout_s = delivery_timeout_s
        self._limiter = ByteLimiter(max_in_flight_bytes, queue_timeout_s)
        self._reports: deque[_Report] = deque()
        self._woken = False
        self._stop = threading.Event()
        self._producer = Producer(
            {
                "client.id": "atdp-gateway",
                "linger.ms": 0,
                "compression.type": "lz4",
                "message.max.bytes": _MAX_REQUEST_BYTES,
                "queue.buffering.max.messages": _MAX_QUEUED,
                # The SDK and Java clients use the same one. With different partitioners the events
                # of one trajectory would be spread over partitions.
                "partitioner": "murmur2_random",
                "socket.nagle.disable": True,
                "log_level": 3,
                **config,
                "enable.idempotence": True,
                "acks": "all",
                "delivery.timeout.ms": int(delivery_timeout_s * 1000),
                "error_cb": self._on_error,
            },
            logger=_log,  # librdkafka would write plain text to stderr
        )
        self._poller = threading.Thread(target=self._poll, name="kafka-delivery", daemon=True)
        self._poller.start()

    async def append(
        self, records: Sequence[LogRecord], *, still_wanted: StillWanted | None = None
    ) -> list[AppendResult]:
        """See `EventLog.append`."""
        if not records:
            return []
        batch = _Batch([None] * len(records), len(records), self._loop.create_future())
        size = sum(_size(record) for record in records)
        if not await self._limiter.acquire(size):
            return [
                EventLogUnavailable(
                    "the gateway holds as much unacknowledged data as it may; "
                    "send again, marked as redelivery"
                )
            ] * len(records)
        if still_wanted is not None and not await self._check_wanted(still_wanted, size):
            return [EventLogUnavailable("given up before it was sent")] * len(records)
        for index, record in enumerate(records):
            self._produce(batch, index, record)
        await batch.done
        return [result for result in batch.results if result is not None]

    def failure(self) -> str | None:
        """See `EventLog.failure`.

        After an outage it asks the broker for its topics, which takes a second at most.
        """
        if self._fatal is None and self._down is not None:
            try:
                self._producer.list_topics(self._topic, timeout=1.0)
            except KafkaException:
                return self._down
            self._down = None
        return self._fatal

    def fatal(self) -> str | None:
        """Return the reason why the producer can never work again; None while it can."""
        return self._fatal

    async def close(self) -> None:
        """Wait for the records in flight (delivery time-out at most), then stop the thread."""
        await asyncio.to_thread(self._producer.flush, self._delivery_timeout_s)
        self._stop.set()
        await asyncio.to_thread(self._poller.join)
        self._producer.purge()  # else closing would wait again for the records that are left
        await asyncio.to_thread(self._producer.close)
        self._drain()

    async def _check_wanted(self, still_wanted: StillWanted, size: int) -> bool:
        """Ask whether the client still waits; releases the granted bytes when it does not."""
        wanted = False
        try:
            wanted = await still_wanted()
        finally:
            if not wanted:
                self._limiter.release(size)
        return wanted

    def _produce(self, batch: _Batch, index: int, record: LogRecord) -> None:
        size = _size(record)

        def report(result: AppendResult) -> None:
            self._report(_Report(batch, index, size, result))

        def on_delivery(error: KafkaError | None, message: Message) -> None:
            if error is None:
                report(LogPosition(message.partition(), message.offset()))
            else:
                report(_failed_append(error))

        try:
            self._producer.produce(
                self._topic,
                key=record.key,
                value=record.value,
                headers=list(record.headers),
                on_delivery=on_delivery,
            )
        except BufferError:
            report(
                EventLogUnavailable(
                    "the gateway's queue to Kafka is full; send again, marked as redelivery"
                )
            )
        except KafkaException as error:
            report(_failed_append(error.args[0]))

    def _report(self, report: _Report) -> None:
        """Hand a report to the event loop; may be called from any thread."""
        self._reports.append(report)
        if not self._woken:
            self._woken = True
            self._loop.call_soon_threadsafe(self._drain)

    def _drain(self) -> None:
        # Reset before the queue is read, so that a later report wakes the loop again.
        self._woken = False
        freed = 0
        while self._reports:
            report = self._reports.popleft()
            freed += report.size
            batch = report.batch
            batch.results[report.index] = report.result
            batch.missing -= 1
            if isinstance(report.result, LogPosition):
                self._down = None
            if batch.missing == 0 and not batch.done.done():
                batch.done.set_result(None)
        if freed:
            self._limiter.release(freed)

    def _poll(self) -> None:
        while not self._stop.is_set():
            self._producer.poll(0.1)

    def _on_error(self, error: KafkaError) -> None:
        if error.fatal():
            self._fatal = (
                f"the Kafka producer failed for good ({error.name()}); restart the gateway"
            )
        elif error.code() == KafkaError._ALL_BROKERS_DOWN:
            self._down = (
                "no Kafka broker can be reached; check `atdp status` and ATDP_KAFKA_BOOTSTRAP"
            )


def _size(record: LogRecord) -> int:
    return len(record.key) + len(record.value)


def _failed_append(error: KafkaError) -> EventLogUnavailable | EventRejected:
    if error.code() in _REJECTIONS:
        return EventRejected(
            f"Kafka will not take this record ({error.name()}); make it smaller or correct it"
        )
    return EventLogUnavailable(
        f"Kafka did not acknowledge in time ({error.name()}); send again, marked as redelivery"
    )
