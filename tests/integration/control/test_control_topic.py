"""Decisions on a real broker."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from atdp.control import PublishFailed, ReleaseStore
from atdp.control.events import CanaryResumed
from atdp.control.outbox import KafkaTopic, Outbox
from atdp.control.store import line_name, number_decisions
from atdp.runtime import SignedTopic
from atdp.schemas import decode_record

pytestmark = pytest.mark.kafka


def stored(directory: Path, count: int) -> ReleaseStore:
    store = ReleaseStore(directory)
    bodies = [CanaryResumed(version=f"v{i}", reason="because") for i in range(count)]
    store.append(
        number_decisions(line_name("orderdesk"), 0, bodies, at=datetime.now(UTC), actor="test")
    )
    return store


def test_decisions_arrive_in_order_with_their_ids(
    tmp_path: Path, kafka_bootstrap: str, new_topic: Callable[..., str]
) -> None:
    name = new_topic(partitions=1)
    signatures = SignedTopic(b"s" * 32, "control", name)
    with stored(tmp_path, 30) as store:
        outbox = Outbox(store, KafkaTopic(signatures, {"bootstrap.servers": kafka_bootstrap}))
        assert outbox.publish_pending() == 30
        assert outbox.publish_pending() == 0
        expected = [d.event_id for d in store.history(line_name("orderdesk"))]
    consumer = Consumer(
        {"bootstrap.servers": kafka_bootstrap, "group.id": name, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([name])
    received: list[str] = []
    try:
        while len(received) < 30:
            message = consumer.poll(60.0)
            assert message is not None
            assert message.error() is None
            assert message.key() == b"weights/orderdesk"
            assert signatures.refusal(message) is None
            received.append(decode_record(message.value())[1]["event_id"])
    finally:
        consumer.close()
    assert received == expected


def test_without_a_broker_decisions_wait(tmp_path: Path) -> None:
    with stored(tmp_path, 2) as store:
        nowhere = SignedTopic(b"s" * 32, "control", "nowhere")
        unreachable = KafkaTopic(nowhere, {"bootstrap.servers": "127.0.0.1:1"}, timeout_s=1.0)
        with pytest.raises(PublishFailed, match="stay in the outbox"):
            Outbox(store, unreachable).publish_pending()
        assert store.position("atdp.control") == 0
