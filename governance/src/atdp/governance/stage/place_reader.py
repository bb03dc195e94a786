"""Reads records at places of their own choice, beside the group's consumer.

The topics of learned values and of quarantine orders are read from their beginning, when a
partition is assigned or its first order comes. Single records are read where a trajectory is
settled (raw ones) or an order names them (quarantined ones). Recent raw records are kept in memory,
with a bound in bytes, so that a trajectory that was just active needs no second read.

A single record in a batch that cannot be read is gone. A batch of learned values that cannot be
read halts governance, because values that it holds would stay in later events. One of the orders
stops all orders of its partition, because it may hold the note that a record is done with.
"""

import contextlib
import struct
import time
from collections.abc import Collection, Iterator
from typing import Any, Final

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec

from atdp.governance.byte_lru import ByteLru
from atdp.governance.decisions import RawRecord
from atdp.governance.errors import HomeUnavailable
from atdp.governance.learned.learned_store import StoredState
from atdp.governance.stage.messages import message_time, raw_record
from atdp.governance.stage.settings import StageSettings
from atdp.governance.stage.transaction import TransactionFailed
from atdp.runtime import is_unreadable
from atdp.schemas import TopicRole

_TIMEOUT_S: Final = 30.0
_NOT_THERE: Final = frozenset({KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE})
_ON_THE_WAY_S: Final = 1.0
_AHEAD: Final = 500
"""Records that are read and skipped rather than sought: a seek costs a round trip."""


class BatchUnreadable(HomeUnavailable):
    """A topic that governance itself writes holds a batch that cannot be read."""


class PlaceReader:
    """Reads single records, and whole partitions of small topics. Not thread-safe."""

    def __init__(self, settings: StageSettings) -> None:
        self._settings = settings
        self._raw_topic = settings.topic("events_raw")
        self._recent = ByteLru[RawRecord](settings.raw_cache_bytes)
        self._consumer: Any = None
        self._at: tuple[str, int, int] | None = None
        """Topic, partition and offset that the consumer reads next."""
        self._known: set[int] = set()
        """Partitions of the quarantine topic that exist."""

    def remember(self, raw: RawRecord) -> None:
        """Keep a record that may be read again soon."""
        self._recent.put(_key(raw.partition, raw.offset), raw, len(raw.value))

    def raw(self, partition: int, offset: int) -> RawRecord | None:
        """Return a raw record, or None when the topic does not hold it any more.

        Raises:
            TransactionFailed: the broker does not answer; the transaction is to be repeated.
        """
        recent = self._recent.get(_key(partition, offset))
        if recent is not None:
            return recent
        message = self._message(self._raw_topic, partition, offset)
        return None if message is None else raw_record(message)

    def quarantined(self, partition: int, offset: int) -> bytes | None:
        """Return a quarantine record, or None when the topic does not hold it.

        Raises:
            TransactionFailed: see `raw`.
        """
        topic = self._settings.topic("events_quarantine")
        # The client waits for a partition that does not exist without an error.
        if partition not in self._known and partition not in self._partitions(topic):
            return None
        self._known.add(partition)
        message = self._message(topic, partition, offset)
        return None if message is None else message.value()

    def states(self, partition: int) -> Iterator[StoredState]:
        """Yield the records of learned values of a partition.

        Raises:
            TransactionFailed: the broker does not answer; the transaction is to be repeated.
            HomeUnavailable: the topic holds a batch that cannot be read.
        """
        for message in self._all("learned_values", partition):
            yield StoredState(message.key() or b"", message.value() or b"", message_time(message))

    def orders(self, partition: int) -> Iterator[Message]:
        """Yield the orders about quarantined records, and the notes on them, of a partition.

        Raises:
            TransactionFailed: see `states`.
        """
        return self._all("quarantine_orders", partition)

    def close(self) -> None:
        """Close the consumer."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def _all(self, role: TopicRole, partition: int) -> Iterator[Message]:
        topic = self._settings.topic(role)
        end = self._end(topic, partition)
        if end == 0:
            return
        self._start(topic, partition, OFFSET_BEGINNING)
        self._at = None
        yield from self._messages(until=end)

    def _message(self, topic: str, partition: int, offset: int) -> Message | None:
        if self._at is None or self._at[:2] != (topic, partition):
            ahead = -1
        else:
            ahead = offset - self._at[2]
        if 0 <= ahead <= _AHEAD:
            # Some batches are passed over by the client in silence. One may lie on the way.
            with contextlib.suppress(TransactionFailed):
                found = self._read_from(topic, partition, offset - ahead, offset, _ON_THE_WAY_S)
                if found is not None:
                    return found
        self._start(topic, partition, offset)
        return self._read_from(topic, partition, offset, offset)

    def _read_from(
        self, topic: str, partition: int, at: int, offset: int, timeout_s: float = _TIMEOUT_S
    ) -> Message | None:
        """Return the record at `offset`, which the reader reaches from `at` without a hole.

        None when it does not. A sender may give any offset to a record, but the broker answers a
        read at an offset with the batch that holds it, and every record behind that follows.
        """
        self._at = None
        try:
            for message in self._messages(timeout_s=timeout_s):
                if message.offset() != at:
                    return None
                if at == offset:
                    self._at = topic, partition, offset + 1
                    return message
                at += 1
        except BatchUnreadable:
            return None
        return None

    def _start(self, topic: str, partition: int, offset: int) -> None:
        if self._consumer is None:
            self._consumer = Consumer(dict(self._settings.reader()))
        self._consumer.assign([TopicPartition(topic, partition, offset)])

    def _messages(
        self, until: int | None = None, timeout_s: float = _TIMEOUT_S
    ) -> Iterator[Message]:
        """Yield messages up to the end that is committed, or up to the offset `until`.

        A transaction of another worker may be open before `until`: then its end is waited for.
        """
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            message = self._consumer.poll(min(timeout_s, 1.0))
            if message is None:
                continue
            error = message.error()
            if error is None:
                yield message
                deadline = time.monotonic() + timeout_s
            elif error.code() == KafkaError._PARTITION_EOF:
                if until is None or message.offset() >= until:
                    return
            elif error.code() in _NOT_THERE:
                return
            elif is_unreadable(error):
                raise BatchUnreadable(
                    f"{message.topic()}[{message.partition()}] cannot be read from the offset "
                    f"{message.offset()} on ({error.str()}); restore the topic's data"
                )
            elif not error.retriable() and error.code() != KafkaError._ALL_BROKERS_DOWN:
                raise TransactionFailed(f"a record cannot be read again: {error.str()}")
        self._at = None
        raise TransactionFailed("the broker did not answer in time when a record was read again")

    def _partitions(self, topic: str) -> Collection[int]:
        try:
            admin = AdminClient(dict(self._settings.kafka.config()))
            return set(admin.list_topics(topic, timeout=_TIMEOUT_S).topics[topic].partitions)
        except KafkaException as error:
            raise TransactionFailed(f"the partitions of {topic} are unknown: {error}") from error

    def _end(self, topic: str, partition: int) -> int:
        """Return the offset after the last record, records of open transactions included."""
        place = TopicPartition(topic, partition)
        admin = AdminClient(dict(self._settings.kafka.config()))
        try:
            futures = admin.list_offsets(
                {place: OffsetSpec.latest()},
                isolation_level=IsolationLevel.READ_UNCOMMITTED,
                request_timeout=_TIMEOUT_S,
            )
            return int(futures[place].result(_TIMEOUT_S).offset)
        except KafkaException as error:
            raise TransactionFailed(f"the end of {topic} is unknown: {error}") from error


def _key(partition: int, offset: int) -> bytes:
    return struct.pack(">qq", partition, offset)
