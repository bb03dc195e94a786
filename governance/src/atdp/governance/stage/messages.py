"""Raw records as Kafka messages hold them."""

from datetime import UTC, datetime
from typing import Final

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, TIMESTAMP_NOT_AVAILABLE, Message

from atdp.governance.decisions import RawRecord

_EPOCH: Final = datetime.fromtimestamp(0, UTC)


def raw_record(message: Message) -> RawRecord:
    """Return the raw record of a message."""
    return RawRecord(
        # Each record states who stamped it. A partition may hold records that were written before
        # its topic began to stamp them.
        appended=message.timestamp()[0] == TIMESTAMP_LOG_APPEND_TIME,
        key=message.key() or b"",
        value=message.value() or b"",
        headers=[(name, value or b"") for name, value in message.headers() or ()],
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
