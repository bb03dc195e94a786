"""Headers as a real client gives them, also those whose name is no text."""

import time
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, TopicPartition
from tests.hostile_batches import batch, produce, record

from atdp.runtime import record_headers

pytestmark = pytest.mark.kafka

DEADLINE_S = 60.0
COUNT = 60
"""The interpreter specializes a call that is repeated; then an unchecked one ends the process."""


def test_headers_whose_name_is_no_text_are_none_however_often_they_come(
    kafka_bootstrap: str, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(partitions=1)
    bad = [record(b"x", index, headers=[(b"\xff\xfe", b"x")]) for index in range(COUNT)]
    data = b"".join([*bad, record(b"x", COUNT, headers=[(b"name", b"x"), (b"empty", b"")])])
    assert produce(kafka_bootstrap, topic, 0, batch("none", data, COUNT + 1)).error == 0
    consumer = Consumer(
        {"bootstrap.servers": kafka_bootstrap, "group.id": topic, "auto.offset.reset": "earliest"}
    )
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        found: list[list[tuple[str, bytes]]] = []
        deadline = time.monotonic() + DEADLINE_S
        while len(found) <= COUNT:
            assert time.monotonic() < deadline
            found += [list(record_headers(each)) for each in consumer.consume(COUNT, 0.2)]
    finally:
        consumer.close()
    assert found == [[]] * COUNT + [[("name", b"x"), ("empty", b"")]]
