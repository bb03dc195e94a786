"""The event log on Kafka: idempotent producer, `acks=all`, delivery awaited in asyncio.

One thread per log (not per call) polls librdkafka for delivery reports. Reports gather in a queue;
the loop is woken once per burst by `call_soon_threadsafe` and resolves one future per `append`.
Measured against confluent-kafka's own `AIOProducer`: that one hands each batch to a thread pool,
waits for its buffer time-out and takes no record headers.

Bound: `max_in_flight_bytes` of values plus keys, counted here because librdkafka's own full queue
raises instead of waiting (`room`).

A fatal producer error (fenced, out of sequence) is final for the producer: `failure()` says so, and
the service's live check asks for a restart.
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
from atdp.gateway.event_log.byte_limiter import Room
from atdp.gateway.event_log.port import Fate, Position, Record, Wanted

_log = logging.getLogger("atdp.gateway.kafka")

# Errors that no retry cures: the record itself is the problem.
_NEVER = frozenset(
    {KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_RECORD, KafkaError._INVALID_ARG}
)


@dataclass
class _Batch:
    """One `append` in flight."""

    fates: list[Fate | None]
    missing: int
    done: "asyncio.Future[None]"


@dataclass(frozen=True)
class _Report:
    batch: _Batch
    index: int
    size: int
    fate: Fate


class KafkaEventLog:
    """Appends to one topic. Make it inside the running event loop that will use it."""

    def __init__(
        self,
        topic: str,
        config: Mapping[str, Any],
        *,
        delivery_timeout_s: float = 20.0,
        room_timeout_s: float = 5.0,
        max_in_flight_bytes: int = 64 * 1024 * 1024,
    ) -> None:
        """`config` holds librdkafka properties (`KafkaSettings.config()`).

        Durability settings are fixed here. An append is answered within `room_timeout_s` +
        `delivery_timeout_s`, which must be less than what its clients wait (the SDK: 30 s): what is
        sent after the client gave up comes after its own copy.
        """
        self._topic = topic
        self._loop = asyncio.get_running_loop()
        self._fatal: str | None = None
        self._down: str | None = None
        self._delivery_timeout_s = delivery_timeout_s
        self._room = Room(max_in_flight_bytes, room_timeout_s)
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
                "partitioner": "murmur2_random",  # as the SDK and Java: a mix would split a trajectory
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
        self, records: Sequence[Record], *, wanted: Wanted | None = None
    ) -> list[Fate]:
        """See `EventLog.append`."""
        if not records:
            return []
        batch = _Batch([None] * len(records), len(records), self._loop.create_future())
        size = sum(_size(record) for record in records)
        if not await self._room.take(size):
            return [
                EventLogUnavailable(
                    "the gateway waits for Kafka with all that it may hold; send again, marked as redelivery"
                )
            ] * len(records)
        if wanted is not None and not await _asked(wanted, self._room, size):
            return [EventLogUnavailable("given up before it was sent")] * len(records)
        for index, record in enumerate(records):
            self._produce(batch, index, record)
        await batch.done
        return [fate for fate in batch.fates if fate is not None]

    def failure(self) -> str | None:
        """See `EventLog.failure`.

        After an outage it asks the broker, for a second at most, whether it is back.
        """
        if self._fatal is None and self._down is not None:
            try:
                self._producer.list_topics(self._topic, timeout=1.0)
            except KafkaException:
                return self._down
            self._down = None
        return self._fatal

    def fatal(self) -> str | None:
        """Why the producer can never work again; None while it may."""
        return self._fatal

    async def close(self) -> None:
        """Wait for what is in flight (its delivery time-out at most), then stop the poller."""
        await asyncio.to_thread(self._producer.flush, self._delivery_timeout_s)
        self._stop.set()
        await asyncio.to_thread(self._poller.join)
        self._producer.purge()  # what is left has no fate any more; else closing would wait for it again
        await asyncio.to_thread(self._producer.close)
        self._drain()

    def _produce(self, batch: _Batch, index: int, record: Record) -> None:
        size = _size(record)

        def delivered(error: KafkaError | None, message: Message) -> None:
            fate = (
                Position(message.partition(), message.offset()) if error is None else _fate(error)
            )
            self._report(_Report(batch, index, size, fate))

        try:
            self._producer.produce(
                self._topic,
                key=record.key,
                value=record.value,
                headers=list(record.headers),
                on_delivery=delivered,
            )
        except BufferError:
            full = EventLogUnavailable(
                "the gateway's queue to Kafka is full; send again, marked as redelivery"
            )
            self._report(_Report(batch, index, size, full))
        except KafkaException as error:
            self._report(_Report(batch, index, size, _fate(error.args[0])))

    def _report(self, report: _Report) -> None:
        """From any thread: hand a report to the loop, waking it once per burst."""
        self._reports.append(report)
        if not self._woken:
            self._woken = True
            self._loop.call_soon_threadsafe(self._drain)

    def _drain(self) -> None:
        self._woken = False  # before reading: a report that comes now wakes the loop again
        freed = 0
        while self._reports:
            report = self._reports.popleft()
            freed += report.size
            batch = report.batch
            batch.fates[report.index] = report.fate
            batch.missing -= 1
            if isinstance(report.fate, Position):
                self._down = None
            if batch.missing == 0 and not batch.done.done():
                batch.done.set_result(None)
        if freed:
            self._room.give_back(freed)

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


# The raw topic takes 8 MiB per record (schemas/topics.toml); a little room for headers.
_MAX_REQUEST_BYTES = 8 * 1024 * 1024
# The bound that counts is in bytes; this one only has to be out of its way.
_MAX_QUEUED = 1_000_000


async def _asked(wanted: Wanted, room: Room, size: int) -> bool:
    still = False
    try:
        still = await wanted()
    finally:
        if not still:
            room.give_back(size)
    return still


def _size(record: Record) -> int:
    return len(record.key) + len(record.value)


def _fate(error: KafkaError) -> Fate:
    if error.code() in _NEVER:
        return EventRejected(
            f"Kafka will not take this record ({error.name()}); make it smaller or correct it"
        )
    return EventLogUnavailable(
        f"Kafka did not acknowledge in time ({error.name()}); send again, marked as redelivery"
    )
