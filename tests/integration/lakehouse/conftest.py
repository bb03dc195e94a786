"""Fixtures for a writer on the real broker: its own topics and a producer of governed events."""

import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from confluent_kafka import Producer

from atdp.lakehouse.lake_writer import SOURCES, WriterSettings
from atdp.runtime import Home, SignedTopic, load_secret_key
from atdp.runtime.kafka_settings import KafkaSettings
from atdp.schemas import Event
from atdp.schemas.codec import encode
from atdp.schemas.headers import REDELIVERY
from atdp.schemas.topics import TopicRole, topic

PARTITIONS = 3
CLOCK = "message.timestamp.type"
"""The setting of a topic that says whose clock dates its records."""


@dataclass(slots=True)
class GovernedProducer:
    """Produces governed events in transactions, as governance does."""

    bootstrap: str
    topics: dict[TopicRole, str]
    secret: bytes
    producer: Producer = field(init=False)

    def __post_init__(self) -> None:
        self.producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "transactional.id": self.topics["events_governed"],
                "linger.ms": 5,
            }
        )
        self.producer.init_transactions(60)

    def produce(
        self,
        events: Iterable[Event],
        *,
        redelivered: bool = False,
        abort: bool = False,
        clock_ms: int = 0,
    ) -> None:
        """One transaction of governed events; `clock_ms` is this producer's time, 0 is now."""
        signatures = SignedTopic(self.secret, "events_governed", self.topics["events_governed"])
        self.producer.begin_transaction()
        for event in events:
            self.producer.produce(
                self.topics["events_governed"],
                value=encode(event),
                key=event.key,
                partition=zlib.crc32(event.key) % PARTITIONS,
                headers=signatures.signed(
                    event.key, encode(event), [(REDELIVERY, b"1")] if redelivered else []
                ),
                timestamp=clock_ms,
            )
            self.producer.poll(0)
        if abort:
            # Only what reached the broker makes a transaction that can be aborted; one without
            # partitions is an error to it.
            self.producer.flush(60)
            self.producer.abort_transaction(60)
        else:
            self.producer.commit_transaction(60)


@pytest.fixture
def kafka(kafka_bootstrap: str) -> KafkaSettings:
    return KafkaSettings(kafka_bootstrap)


@pytest.fixture
def topics(new_topic: Callable[..., str]) -> dict[TopicRole, str]:
    return {
        role: new_topic(
            partitions=PARTITIONS if role == "events_governed" else 1,
            **{name: value for name, value in topic(role).config.items() if name == CLOCK},
        )
        for role in SOURCES
    }


@pytest.fixture
def governed(kafka_bootstrap: str, topics: dict[TopicRole, str], secret: bytes) -> GovernedProducer:
    return GovernedProducer(kafka_bootstrap, topics, secret)


@pytest.fixture(autouse=True)
def secret(tmp_path: Path) -> bytes:
    """The secret of the home of the writer, with which the records are signed."""
    return load_secret_key(Home(tmp_path / "home").register_secret_file, if_lost="the test fails")


@pytest.fixture
def writer_settings(topics: dict[TopicRole, str]) -> WriterSettings:
    return WriterSettings(group=topics["audit"], topics=topics, linger_s=0.1)
