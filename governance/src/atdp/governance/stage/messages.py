"""Raw records as Kafka messages hold them, and batches that cannot be read."""

from datetime import UTC, datetime
from typing import Final, TypeAlias

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, TIMESTAMP_NOT_AVAILABLE, Message

from atdp.governance.decisions import RawRecord
from atdp.runtime import UnreadableBatch, record_headers

_EPOCH: Final = datetime.fromtimestamp(0, UTC)

RawEntry: TypeAlias = Message | UnreadableBatch
"""A record, or a batch that cannot be read, which stands for all its records."""


def raw_record(message: Message) -> RawRecord:
    """Return the raw record of a message."""
    return RawRecord(
        # Each record states who stamped it. A partition may hold records that were written before
        # its topic began to stamp them.
        appended=message.timestamp()[0] == TIMESTAMP_LOG_APPEND_TIME,
        value=message.value() or b"",
        headers=record_headers(message),
        topic=message.topic(),
        partition=message.partition(),
        offset=message.offset(),
        timestamp=message_time(message),
    )


def message_time(message: Message) -> datetime:
    """Return the time of a message; the epoch when it has none."""
    kind, milliseconds = message.timestamp()
    if kind == TIMESTAMP_NOT_AVAILABLE:
        return _EPOCH
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def place_of(entry: RawEntry) -> tuple[str, int]:
    """Return the topic and the partition of an entry."""
    if isinstance(entry, UnreadableBatch):
        return entry.topic, entry.partition
    return entry.topic(), entry.partition()


def offsets_of(entry: RawEntry) -> tuple[int, int]:
    """Return the first offset of an entry and the one behind it."""
    if isinstance(entry, UnreadableBatch):
        return entry.first, entry.after
    return entry.offset(), entry.offset() + 1


def value_bytes(entry: RawEntry) -> int:
    """Return the bytes of a record's value; 0 for a batch that cannot be read."""
    return 0 if isinstance(entry, UnreadableBatch) else len(entry.value() or b"")
