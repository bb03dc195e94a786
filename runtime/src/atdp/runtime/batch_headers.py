"""The batches of a partition as the broker has them: their offsets, and what they claim to be.

The offset that the client gives to a record is the first one of its batch plus a number in the
record. The broker neither checks nor changes that number in an uncompressed batch, so anybody who
can write may give a record any offset. The first and the last offset of a batch are the broker's
own. They are read here, without the records being decompressed.

The layout is "Record Batch" of the Kafka protocol guide.
"""

import struct
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from atdp.runtime.broker_socket import BrokerRefused, BrokerSocket
from atdp.runtime.kafka_settings import KafkaSettings
from atdp.runtime.unreadable_batches import ProbeFailed

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

_FETCH, _VERSION = 1, 4
_TIMEOUT_S: Final = 10.0
_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_OUT_OF_RANGE: Final = 1
_GZIP: Final = 1
_MOST_INFLATED: Final = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class BatchHeader:
    """A batch: its first and last offset (inclusive), its attributes, its payload as stored."""

    first: int
    last: int
    attributes: int
    payload: bytes

    @property
    def holds_records(self) -> bool:
        """True for a batch whose records every consumer must get.

        A marker holds none, and those of a transaction may be aborted.
        """
        return not self.attributes & 0x30

    @property
    def is_unreadable(self) -> bool:
        """True for gzip in several streams, which librdkafka reads the first of, without an error.

        What it then lacks it takes for a part of the answer that is still to come, for ever.
        """
        if self.attributes & 0x7 != _GZIP:
            return False
        stream, data, inflated = zlib.decompressobj(31), self.payload, 0
        while data and not stream.eof and inflated < _MOST_INFLATED:
            inflated += len(stream.decompress(data, 1 << 20))
            data = stream.unconsumed_tail
        return bool(stream.unused_data)


class BatchHeaders:
    """Reads batches from the leader of their partition. Not thread-safe."""

    def __init__(self, settings: KafkaSettings, *, timeout_s: float = _TIMEOUT_S) -> None:
        """Connect at the first call; `timeout_s` limits each call."""
        self._settings = settings
        self._timeout_s = timeout_s
        self._admin: AdminClient | None = None

    def at(self, topic: str, partition: int, offset: int) -> BatchHeader | None:
        """Return the batch that holds an offset, or the next one; None when there is none.

        Raises:
            ProbeFailed: the broker did not answer, or refused.
        """
        name = topic.encode()
        body = struct.pack(">iiiib", -1, 100, 1, 1, 0)
        body += struct.pack(">ih", 1, len(name)) + name
        body += struct.pack(">iiqi", 1, partition, offset, 1)
        try:
            host, port = self._leader(topic, partition)
            security = self._settings.extra
            with BrokerSocket(host, port, security, timeout_s=self._timeout_s) as broker:
                answer = broker.ask(_FETCH, _VERSION, body)
            return _first_batch(answer, 4 + 4 + 2 + len(name) + 4, offset)
        except (OSError, BrokerRefused, struct.error) as failure:
            raise ProbeFailed(f"{topic}[{partition}] cannot be looked at: {failure}") from failure

    def _leader(self, topic: str, partition: int) -> tuple[str, int]:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        if self._admin is None:
            self._admin = AdminClient({**self._settings.config(), "log_level": 0})
        try:
            metadata = self._admin.list_topics(topic, timeout=self._timeout_s)
            leader = metadata.brokers[metadata.topics[topic].partitions[partition].leader]
        except (KafkaException, KeyError) as failure:
            raise BrokerRefused(f"its leader is unknown: {failure}") from failure
        return leader.host, leader.port


def _first_batch(answer: bytes, at: int, offset: int) -> BatchHeader | None:
    """Return the first batch of an answer to a Fetch request whose partition begins at `at`."""
    _, error, _, _, aborted = struct.unpack_from(">ihqqi", answer, at)
    if error == _OUT_OF_RANGE:
        return None
    if error:
        raise BrokerRefused(f"the broker answered with the error {error}")
    at += struct.calcsize(">ihqqi") + max(aborted, 0) * 16
    (size,) = struct.unpack_from(">i", answer, at)
    at, end = at + 4, at + 4 + max(size, 0)
    while at < end:
        first, length, _, _, _, attributes, delta, *_ = _HEADER.unpack_from(answer, at)
        after = at + 12 + length
        if first + delta >= offset:
            payload = answer[at + _HEADER.size : after]
            return BatchHeader(first, first + delta, attributes, payload)
        at = after
    return None
