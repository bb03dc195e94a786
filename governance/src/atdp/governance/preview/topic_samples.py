"""Samples of the raw topic and of quarantine, read from Kafka beside the group of the workers.

A batch that cannot be read is left out.
"""

import time
from collections.abc import Iterator, Sequence
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from atdp.governance.decisions import RawRecord
from atdp.governance.errors import PreviewError, SecretsError
from atdp.governance.preview.samples import DrawnRecord, Sample, SampleWindow, TrajectorySampler
from atdp.governance.quarantine import open_raw
from atdp.governance.stage.messages import message_time, raw_record
from atdp.governance.stage.settings import StageSettings
from atdp.governance.wrapped_keys import WrappedKeys
from atdp.runtime import PartitionProbe, is_unreadable
from atdp.schemas import SchemaError, TopicRole, decode_record, record_key

_TIMEOUT_S: Final = 20.0
"""Longest time without an answer of the broker."""


def raw_sample(settings: StageSettings, sampler: TrajectorySampler) -> Sample:
    """Return a sample of raw records. Records without a key, which no SDK writes, are left out.

    Raises:
        PreviewError: the broker or the topic cannot be reached, or the sample is too large.
    """
    for message in _messages(settings, "events_raw", sampler.window):
        sampler.add(message.key() or b"", raw_record(message))
    return sampler.sample("raw")


def quarantine_sample(
    settings: StageSettings, keys: WrappedKeys, sampler: TrajectorySampler
) -> Sample:
    """Return a sample of quarantined records by the time of their quarantine, as they were raw.

    Records that were not kept, of which a key was destroyed, or that have no valid signature of
    governance are left out.

    Raises:
        PreviewError: see `raw_sample`.
    """
    signatures = settings.signatures("events_quarantine")
    for message in _messages(settings, "events_quarantine", sampler.window):
        if signatures.refusal(message) is not None:
            continue
        raw = _unsealed(message, keys)
        if raw is None:
            continue
        tenant = (message.key() or b"").decode("utf-8", "replace")
        event = DrawnRecord.of(raw).event
        trajectory = f"{raw.partition}/{raw.offset}" if event is None else event["trajectory_id"]
        sampler.add(record_key(tenant, trajectory), raw)
    return sampler.sample("quarantine")


def _unsealed(message: Message, keys: WrappedKeys) -> RawRecord | None:
    try:
        name, record = decode_record(message.value() or b"")
        return open_raw(keys, record) if name == "quarantine" else None
    except (SchemaError, SecretsError):
        return None


def _messages(settings: StageSettings, role: TopicRole, window: SampleWindow) -> Iterator[Message]:
    """Yield the messages of a topic in a window, each partition up to its end at the start."""
    consumer = Consumer({**settings.reader(), "log_level": 0})
    probe = PartitionProbe(settings.kafka)
    try:
        ends = _assign(consumer, settings.topic(role), window)
        deadline = time.monotonic() + _TIMEOUT_S
        while ends:
            message = consumer.poll(1.0)
            if message is None:
                if time.monotonic() > deadline:
                    raise PreviewError(
                        f"{settings.topic(role)} could not be read to its end in {_TIMEOUT_S:g} s; "
                        "check the broker (`atdp status`) and try again"
                    )
                continue
            deadline = time.monotonic() + _TIMEOUT_S
            error, partition = message.error(), message.partition()
            if error is not None and is_unreadable(error):
                _leave_out(consumer, probe, message, ends)
                continue
            if error is not None and error.code() != KafkaError._PARTITION_EOF:
                raise PreviewError(f"{settings.topic(role)} cannot be read: {error.str()}")
            if partition not in ends:
                continue
            offset = message.offset()
            is_old = error is None and offset < ends[partition]
            if is_old and window.holds(message_time(message)):
                yield message
            if not is_old or offset == ends[partition] - 1:
                del ends[partition]
    except KafkaException as error:
        raise PreviewError(
            f"{settings.topic(role)} cannot be read: {error.args[0].str()}; "
            "check that the stack runs (`atdp status`)"
        ) from error
    finally:
        consumer.close()
        probe.close()


def _leave_out(
    consumer: Consumer, probe: PartitionProbe, message: Message, ends: dict[int, int]
) -> None:
    """Continue behind a batch that cannot be read."""
    batch = probe.batch_of(message)
    after = message.offset() if batch is None else batch.after
    if after >= ends.get(message.partition(), 0):
        ends.pop(message.partition(), None)
    consumer.seek(TopicPartition(message.topic(), message.partition(), after))


def _assign(consumer: Consumer, topic: str, window: SampleWindow) -> dict[int, int]:
    """Assign the partitions from the beginning of the window; return the ends of their records."""
    metadata = consumer.list_topics(topic, timeout=_TIMEOUT_S).topics[topic]
    if metadata.error is not None:
        raise PreviewError(f"the topic {topic} does not exist; `atdp up` creates the topics")
    places = [
        TopicPartition(topic, partition, round(window.since.timestamp() * 1000))
        for partition in metadata.partitions
    ]
    starts: Sequence[TopicPartition] = consumer.offsets_for_times(places, timeout=_TIMEOUT_S)
    ends: dict[int, int] = {}
    assigned: list[TopicPartition] = []
    for start in starts:
        _, end = consumer.get_watermark_offsets(start, timeout=_TIMEOUT_S, cached=False)
        if 0 <= start.offset < end:
            ends[start.partition] = end
            assigned.append(start)
    if assigned:
        consumer.assign(assigned)
    return ends
