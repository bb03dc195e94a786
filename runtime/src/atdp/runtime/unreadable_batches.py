"""Batches of records that no consumer can read, and where in their partition they end.

Kafka keeps and sends records in batches. A broker accepts any batch that it can decompress itself,
also one that holds hundreds of megabytes in a few kilobytes, and what it has on disk may be
damaged. The client reports such a batch with the offset of its first record, and then stays before
it for ever. The report does not say where the batch ends.

The end is the broker's last offset of the batch, which `BatchHeaders` reads from its header. A
consumer that is a member of no group reads the batch a second time before it is given up.

The checksum of batches stays unchecked (`check.crcs`): librdkafka loses its place in the answer
behind a wrong one, and may continue at an offset that the damaged bytes name. Damage shows when a
batch is decompressed or parsed, and in the signature of a record.
"""

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from atdp.runtime.batch_headers import BatchHeaders, ProbeFailed
from atdp.runtime.kafka_settings import KafkaSettings, KafkaValue
from atdp.schemas import LOOK_GROUPS

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Message

_log = logging.getLogger("atdp.service")
_TIMEOUT_S: Final = 30.0

READING_LIMITS: Final[Mapping[str, KafkaValue]] = {
    # A batch of zstd that holds more is not decompressed. One that does not state its size is
    # tried with buffers that grow threefold, so a third of this must hold the largest good batch
    # (8.4 MB).
    "receive.message.max.bytes": 32 * 1024 * 1024,
    # Bytes of one answer, all partitions together. One batch is sent however large it is, and a
    # small batch may hold 30,000 times its size: this bounds how many are decompressed at once.
    "message.max.bytes": 1_000,
    "fetch.max.bytes": 16 * 1024,
    "fetch.message.max.bytes": 4 * 1024,
    # A batch that cannot be read holds up its own partition for this long, until it is passed over.
    "fetch.error.backoff.ms": 20,
}
"""Properties of every consumer of a topic that others than the platform write."""


@dataclass(frozen=True, kw_only=True, slots=True)
class UnreadableBatch:
    """A batch that cannot be read, from its first offset up to `after` (exclusive)."""

    topic: str
    partition: int
    first: int
    after: int
    why: str
    """The client's report; it quotes no data."""

    @property
    def place(self) -> str:
        """The topic, the partition and the offsets, for people."""
        return f"{self.topic}[{self.partition}] offsets {self.first} to {self.after - 1}"


@dataclass(frozen=True, kw_only=True, slots=True)
class PartitionEntry:
    """The first entry at or after an offset that is committed.

    `offset` is that of the record, of the first record of the unreadable batch (which may lie
    before the offset that was asked for), or where reading ends: the end of the partition, or the
    first open transaction.
    """

    kind: Literal["record", "unreadable", "end"]
    offset: int


def is_unreadable(error: "KafkaError") -> bool:
    """Return whether a consumer's error is about a batch that will never be readable.

    A format that this client does not know is another matter: a newer client can read it.
    """
    from confluent_kafka import KafkaError

    return error.code() in (
        KafkaError._BAD_COMPRESSION,
        KafkaError._BAD_MSG,
        KafkaError.INVALID_MSG,
    )


class PartitionProbe:
    """Reads the first entry at a place. Not thread-safe."""

    def __init__(self, settings: KafkaSettings, *, timeout_s: float = _TIMEOUT_S) -> None:
        """Connect at the first call; `timeout_s` limits each read."""
        self._settings = settings
        self._timeout_s = timeout_s
        self._batches = BatchHeaders(settings)
        self._consumer: Consumer | None = None

    def batch_of(self, message: "Message") -> UnreadableBatch | None:
        """Return the batch that a consumer's error is about, for which `is_unreadable` holds.

        None: it is to be read again, because it can be read now or the broker did not answer. The
        consumer is to be sought behind the batch, or to the offset of the message, and what else
        it has fetched from the partition is to be dropped.
        """
        error = message.error()
        topic, partition, first = message.topic(), message.partition(), message.offset()
        if error is None or topic is None or partition is None or first is None:
            return None
        try:
            return self.unreadable_batch(topic, partition, first, error.str())
        except ProbeFailed as failure:
            _log.warning("the end of an unreadable batch is unknown", extra={"why": str(failure)})
            return None

    def unreadable_batch(
        self, topic: str, partition: int, first: int, why: str
    ) -> UnreadableBatch | None:
        """Return the batch that a consumer has reported at its first offset.

        None: it can be read now, so the report was about its transfer, or it is there no more.

        Raises:
            ProbeFailed: the broker did not answer.
        """
        header = self._batches.at(topic, partition, first)
        if header is None or header.first > first:
            return None
        entry = self.entry(topic, partition, first)
        if entry is None:
            raise ProbeFailed(f"{topic}[{partition}]: the broker did not answer in time")
        if entry.kind != "unreadable":
            return None
        after = header.last + 1
        return UnreadableBatch(topic=topic, partition=partition, first=first, after=after, why=why)

    def entry(self, topic: str, partition: int, offset: int) -> PartitionEntry | None:
        """Return the first entry at or after an offset; None when nothing comes in time.

        An offset behind the end of the partition gives the entry `end` with that offset.

        Raises:
            ProbeFailed: the broker did not answer, or refused.
        """
        from confluent_kafka import KafkaException, TopicPartition

        consumer = self._connected()
        try:
            consumer.assign([TopicPartition(topic, partition, offset)])
            try:
                return self._first_entry(consumer, offset)
            finally:
                # Otherwise it fetches ahead, and the next answer waits for that.
                consumer.unassign()
        except KafkaException as failure:
            raise ProbeFailed(f"{topic}[{partition}] cannot be read: {failure}") from failure

    def _first_entry(self, consumer: "Consumer", offset: int) -> PartitionEntry | None:
        from confluent_kafka import KafkaError

        deadline = time.monotonic() + self._timeout_s
        while (left_s := deadline - time.monotonic()) > 0:
            message = consumer.poll(left_s)
            if message is None:
                continue
            error, at = message.error(), message.offset()
            if at is None or (error is not None and error.code() == KafkaError._AUTO_OFFSET_RESET):
                at = offset
            if error is None:
                return PartitionEntry(kind="record", offset=at)
            if is_unreadable(error):
                return PartitionEntry(kind="unreadable", offset=at)
            if error.code() in (KafkaError._PARTITION_EOF, KafkaError._AUTO_OFFSET_RESET):
                return PartitionEntry(kind="end", offset=at)
        return None

    def close(self) -> None:
        """Disconnect."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def _connected(self) -> "Consumer":
        from confluent_kafka import Consumer

        if self._consumer is None:
            # It is no member of a group: the id is required, and never used for offsets.
            own: dict[str, KafkaValue] = {
                **READING_LIMITS,
                "group.id": f"{LOOK_GROUPS}probe",
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": 20,
                "log_level": 0,
            }
            self._consumer = Consumer({**self._settings.config(), **own})
        return self._consumer
