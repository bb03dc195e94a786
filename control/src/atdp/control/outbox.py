"""Publishes decisions to the topic `atdp.control`, in order, each at least once.

Kafka cannot be the write model (it has no conditional append), so decisions are stored first and
published from the store's log. The position moves after Kafka acknowledged; a publisher killed in
between publishes the same events, with the same ids, again. Consumers tell duplicates by
`event_id`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from confluent_kafka import KafkaError, KafkaException, Producer

from atdp.control.errors import PublishFailed
from atdp.control.events import SCHEMA, Bootstrapped, Decided, GateRecorded, body_to_json
from atdp.control.store import ReleaseStore
from atdp.replay import rounded_canonical_json
from atdp.schemas import encode_record

READER = "atdp.control"
"""Name of the outbox's position in the store."""
BATCH = 500
"""Events published between two moves of the position."""


@dataclass(frozen=True)
class OutboxMessage:
    """One record for the topic."""

    key: bytes
    value: bytes


class DecisionTopic(Protocol):
    """Where decisions are published."""

    def publish(self, messages: Sequence[OutboxMessage]) -> None:
        """Append in order; returns when all are acknowledged, else raises `PublishFailed`."""
        ...


class MemoryTopic:
    """A topic in memory, for tests."""

    def __init__(self) -> None:
        self.messages: list[OutboxMessage] = []

    def publish(self, messages: Sequence[OutboxMessage]) -> None:
        """See `DecisionTopic`."""
        self.messages.extend(messages)


class KafkaTopic:
    """The topic on Kafka: idempotent producer, all replicas."""

    def __init__(self, name: str, config: Mapping[str, Any], *, timeout_s: float = 10.0) -> None:
        """`config` holds librdkafka properties (`KafkaSettings.config()`)."""
        self._name = name
        self._timeout_s = timeout_s
        self._producer = Producer(
            {
                "client.id": "atdp-control",
                "log_level": 2,  # a broker that is away is said once, by PublishFailed
                **config,
                "enable.idempotence": True,
                "acks": "all",
                "delivery.timeout.ms": int(timeout_s * 1000),
            }
        )

    def publish(self, messages: Sequence[OutboxMessage]) -> None:
        """See `DecisionTopic`."""
        failures: list[str] = []

        def delivered(error: KafkaError | None, _: object) -> None:
            if error is not None:
                failures.append(str(error))

        try:
            for message in messages:
                self._producer.produce(
                    self._name, key=message.key, value=message.value, on_delivery=delivered
                )
            waiting = self._producer.flush(self._timeout_s + 1.0)
        except (KafkaException, BufferError) as error:
            raise PublishFailed(
                f"Kafka did not take decisions for {self._name}: {error}"
            ) from error
        if failures or waiting:
            why = failures[0] if failures else "no acknowledgement in time"
            raise PublishFailed(
                f"Kafka did not acknowledge {len(failures) or waiting} decisions for {self._name} ({why}); they stay in"
                " the outbox"
            )


@dataclass(frozen=True)
class Outbox:
    """The store's log on its way to the topic."""

    store: ReleaseStore
    topic: DecisionTopic

    def publish_pending(self) -> int:
        """Publish everything beyond the position; returns how many.

        Raises `PublishFailed`, with the rest kept.
        """
        published = 0
        while batch := self.store.log(self.store.position(READER), BATCH):
            self.topic.publish([message_of(decided) for _, decided in batch])
            self.store.advance(READER, batch[-1][0])
            published += len(batch)
        return published


def message_of(decided: Decided) -> OutboxMessage:
    """The decision as a `ControlEvent` of the platform's contract, keyed by its line."""
    body = decided.body
    tenants = body.tenants if isinstance(body, GateRecorded | Bootstrapped) else ()
    record = {
        "event_id": decided.event_id,
        "aggregate_id": decided.line,
        "aggregate_version": decided.number,
        "type": decided.type,
        "tenant_id": tenants[0] if len(tenants) == 1 else "*",
        "actor": decided.actor,
        "payload_json": rounded_canonical_json({"schema": SCHEMA, **body_to_json(body)}).decode(),
        "occurred_at": decided.occurred_at,
    }
    return OutboxMessage(key=decided.line.encode(), value=encode_record("control_event", record))
