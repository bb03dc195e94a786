"""Batches of the governed topic that nobody can read, and the evaluators."""

import time
from collections.abc import Callable

import pytest
from confluent_kafka import Producer
from tests.hostile_batches import bomb, produce

from atdp.lakehouse.testing import SampleTrajectory
from atdp.rewards.evaluators.ended_consumer import EndedConsumer
from atdp.runtime import KafkaSettings
from atdp.schemas import encode

pytestmark = pytest.mark.kafka

DEADLINE_S = 60.0


def test_evaluators_leave_out_what_cannot_be_read_and_see_every_end_behind_it(
    kafka_bootstrap: str, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(partitions=1)
    producer = Producer({"bootstrap.servers": kafka_bootstrap})
    ids = []
    for name in ("before", "behind"):
        event = SampleTrajectory(name=name).events()[-1]
        producer.produce(topic, key=event.key, value=encode(event))
        assert producer.flush(DEADLINE_S) == 0
        ids.append(event.trajectory_id)
        if name == "before":
            assert produce(kafka_bootstrap, topic, 0, bomb("zstd", 120 << 20)).error == 0

    consumer = EndedConsumer(KafkaSettings(kafka_bootstrap), topic_name=topic, group=topic)
    try:
        found = []
        deadline = time.monotonic() + DEADLINE_S
        while consumer.positions.get(0) != 3:
            assert time.monotonic() < deadline, consumer.positions
            found.extend(consumer.poll([event.tenant_id], 0.1))
        assert [each.trajectory for each in found] == ids
        consumer.positions[0] = 1
        consumer.watch.look(0.0)
        consumer.watch.look(1_000.0)
        assert f"{topic}[0] is not read: the position has been 1" in str(consumer.watch.problem())
        consumer.positions[0] = 3
        consumer.watch.look(2_000.0)
        assert consumer.watch.problem() is None
    finally:
        consumer.close()
