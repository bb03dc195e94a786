"""The content of the topics, read from their beginnings by a consumer of the demo's own."""

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Message, TopicPartition

from atdp.runtime import KafkaSettings, KafkaValue, record_headers
from atdp.schemas import LOOK_GROUPS, REGOVERNED, TopicRole, decode_record, header, topic
from order_desk.errors import DemoError
from order_desk.event_accounting import LogCount

GOVERNED_TOPICS: tuple[TopicRole, ...] = (
    "events_governed",
    "events_quarantine",
    "audit",
    "control",
    "evaluations",
)
"""Topics that must not hold a raw personal value."""

_TIMEOUT_S = 60.0
_CONSUME_S = 0.25
"""`consume` waits this long for a full batch, also at the end of the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRecord:
    """One record of a topic."""

    key: bytes
    value: bytes
    headers: tuple[tuple[str, bytes], ...]


def read_topic(kafka: KafkaSettings, role: TopicRole) -> Iterator[TopicRecord]:
    """Yield every committed record of a topic up to its present end, partition by partition.

    Raises:
        DemoError: the broker stopped answering.
    """
    name = topic(role).name
    options: dict[str, KafkaValue] = {
        "group.id": f"{LOOK_GROUPS}demo",
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
    }
    consumer = Consumer(kafka.config(**options))
    try:
        yield from _read_to_end(consumer, name)
    except KafkaException as error:
        raise DemoError(f"Cannot read {name}: {error.args[0].str()}.") from error
    finally:
        consumer.close()


def _read_to_end(consumer: Consumer, name: str) -> Iterator[TopicRecord]:
    partitions = consumer.list_topics(name, timeout=_TIMEOUT_S).topics[name].partitions
    left = set(partitions)
    consumer.assign([TopicPartition(name, partition, OFFSET_BEGINNING) for partition in partitions])
    deadline_s = time.monotonic() + _TIMEOUT_S
    while left:
        messages = consumer.consume(5000, timeout=_CONSUME_S)
        if messages:
            deadline_s = time.monotonic() + _TIMEOUT_S
        elif time.monotonic() > deadline_s:
            raise DemoError(
                f"The broker gave no more records of {name}; "
                f"partitions {sorted(left)} are not read to the end."
            )
        for message in messages:
            error = message.error()
            if error is None:
                yield _record(message)
            elif error.name() == "_PARTITION_EOF":
                left.discard(message.partition())
            else:
                raise DemoError(f"Cannot read {name}: {error.str()}.")


def _record(message: Message) -> TopicRecord:
    return TopicRecord(
        key=message.key() or b"",
        value=message.value() or b"",
        headers=tuple(record_headers(message)),
    )


def count_log(kafka: KafkaSettings) -> LogCount:
    """Count the records of the topics."""
    raw = sum(1 for _ in read_topic(kafka, "events_raw"))
    governed = Counter(
        decode_record(record.value)[1]["event_id"]
        for record in read_topic(kafka, "events_governed")
        if header(record.headers, REGOVERNED) is None
    )
    quarantined, quarantined_ids = Counter[tuple[str, str]](), Counter[str]()
    for record in read_topic(kafka, "events_quarantine"):
        refused = decode_record(record.value)[1]
        quarantined[refused["tenant_id"], refused["reason"]] += 1
        quarantined_ids.update(_known_id(refused))
    dropped, dropped_ids, findings = 0, Counter[str](), Counter[tuple[str, str]]()
    for record in read_topic(kafka, "audit"):
        decision = decode_record(record.value)[1]
        if decision["decision"] == "dropped":
            dropped += 1
            dropped_ids.update(_known_id(decision))
        for finding in decision["findings"]:
            findings[finding["entity"], finding["operator"]] += finding["count"]
    return LogCount(
        raw_records=raw,
        governed=governed,
        quarantined=quarantined,
        quarantined_ids=quarantined_ids,
        dropped_by_policy=dropped,
        dropped_ids=dropped_ids,
        findings=findings,
    )


def _known_id(record: Mapping[str, Any]) -> list[str]:
    """Return the event id of a decision; empty when governance could not read one."""
    return [] if record["event_id"] is None else [record["event_id"]]
