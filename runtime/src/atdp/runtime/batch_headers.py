"""The batches of a partition as the broker has them: their offsets, and what they claim to be.

The offset that the client gives to a record is the first one of its batch plus a number in the
record. The broker neither checks nor changes that number in an uncompressed batch, so anybody who
can write may give a record any offset. The first and the last offset of a batch are the broker's
own. They are read here, without the records being decompressed.

The layout is "Record Batch" of the Kafka protocol guide.
"""

import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from atdp.runtime.broker_socket import BrokerRefused, BrokerSocket
from atdp.runtime.checksums import crc32c
from atdp.runtime.errors import PlatformError
from atdp.runtime.kafka_settings import KafkaSettings

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

_FETCH, _VERSION = 1, 4
_TIMEOUT_S: Final = 10.0
_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_CHECKED_FROM: Final = 21
"""The checksum is that of the attributes and of everything behind them."""
_OUT_OF_RANGE: Final = 1
_GZIP: Final = 1
_TRANSACTIONAL: Final = 0x10
_CONTROL: Final = 0x20
_COMMITTED_ONLY: Final = 1
_MOST_BYTES: Final = 1 << 20
"""Bytes of one answer. A larger batch is sent alone. Anybody may write a million small batches that
are aborted; they take some answers, and not one each."""


class ProbeFailed(PlatformError):
    """The broker did not answer, so it is not known what a partition holds; try again later."""


@dataclass(frozen=True, slots=True)
class BatchHeader:
    """A batch: its first and last offset (inclusive), its attributes, and all of it as stored."""

    first: int
    last: int
    attributes: int
    stored: bytes
    is_aborted: bool = False
    """True when its transaction was aborted."""

    @property
    def holds_records(self) -> bool:
        """True for a batch whose records every consumer must get: no marker, and not aborted."""
        return not (self.attributes & _CONTROL or self.is_aborted)

    @property
    def is_unreadable(self) -> bool:
        """True for what librdkafka takes for the beginning of a batch, without an error, for ever.

        That is a batch with a wrong checksum, whose records seem to be longer than it is, and gzip
        in several streams, of which librdkafka reads the first.
        """
        *_, checksum, attributes = _HEADER.unpack_from(self.stored)[:6]
        if crc32c(self.stored[_CHECKED_FROM:]) != checksum:
            return True
        if attributes & 0x7 != _GZIP:
            return False
        stream, data = zlib.decompressobj(31), self.stored[_HEADER.size :]
        try:
            while data and not stream.eof:
                stream.decompress(data, 1 << 20)
                data = stream.unconsumed_tail
        except zlib.error:
            # The client reports it.
            return False
        return bool(stream.unused_data)


class BatchHeaders:
    """Reads batches from the leader of their partition, up to the first open transaction.

    Not thread-safe.
    """

    def __init__(self, settings: KafkaSettings, *, timeout_s: float = _TIMEOUT_S) -> None:
        """Connect at the first call; `timeout_s` limits each call."""
        self._settings = settings
        self._timeout_s = timeout_s
        self._admin: AdminClient | None = None

    def at(self, topic: str, partition: int, offset: int) -> BatchHeader | None:
        """Return the batch that holds an offset, or the next one; None when there is none.

        Raises:
            ProbeFailed: see `walk`.
        """
        return next(self.walk(topic, partition, offset), None)

    def walk(self, topic: str, partition: int, offset: int) -> Iterator[BatchHeader]:
        """Yield the batches from the one that holds an offset on, or from the next one.

        Ends where the partition ends, and gives nothing for an offset that it does not have.

        Raises:
            ProbeFailed: the broker did not answer, or refused.
        """
        while batches := self._fetch(topic, partition, offset):
            yield from batches
            offset = batches[-1].last + 1

    def _fetch(self, topic: str, partition: int, offset: int) -> Sequence[BatchHeader]:
        name = topic.encode()
        body = struct.pack(">iiiib", -1, 100, 1, _MOST_BYTES, _COMMITTED_ONLY)
        body += struct.pack(">ih", 1, len(name)) + name
        body += struct.pack(">iiqi", 1, partition, offset, _MOST_BYTES)
        try:
            host, port = self._leader(topic, partition)
            security = self._settings.extra
            with BrokerSocket(host, port, security, timeout_s=self._timeout_s) as broker:
                answer = broker.ask(_FETCH, _VERSION, body)
            return _batches(answer, 4 + 4 + 2 + len(name) + 4, offset)
        except (OSError, BrokerRefused, struct.error, ValueError) as failure:
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


def _batches(answer: bytes, at: int, offset: int) -> Sequence[BatchHeader]:
    """Return the batches of an answer to a Fetch request from the one that holds `offset` on.

    The partition begins at `at`.
    """
    _, error, end, _, count = struct.unpack_from(">ihqqi", answer, at)
    if error == _OUT_OF_RANGE:
        return ()
    if error:
        raise BrokerRefused(f"the broker answered with the error {error}")
    at += struct.calcsize(">ihqqi")
    # The first offset and the producer of each aborted transaction; the earliest is the last.
    aborted = sorted(
        (struct.unpack_from(">qq", answer, at + 16 * each)[::-1] for each in range(count)),
        reverse=True,
    )
    at += 16 * len(aborted)
    (size,) = struct.unpack_from(">i", answer, at)
    at, stop = at + 4, at + 4 + max(size, 0)
    headers = []
    owners: set[int] = set()
    """Producers whose transaction that is under way here was aborted."""
    while at + _HEADER.size <= stop:
        first, length, _, _, _, bits, delta, _, _, owner, *_ = _HEADER.unpack_from(answer, at)
        after, last = at + 12 + length, first + delta
        if not at + _HEADER.size <= after <= stop:
            break  # The last one is cut off.
        while aborted and aborted[-1][0] <= last:
            owners.add(aborted.pop()[1])
        if bits & _CONTROL:
            owners.discard(owner)
        is_aborted = bool(bits & _TRANSACTIONAL) and owner in owners
        headers.append(BatchHeader(first, last, bits, answer[at:after], is_aborted))
        at = after
    if size > 0 and not headers:
        raise BrokerRefused("the header of a batch is damaged")
    return [each for each in _within(headers, end) if each.last >= offset]


def _within(headers: Sequence[BatchHeader], end: int) -> Iterator[BatchHeader]:
    """Yield batches with last offsets that reach into no next batch and not behind the end.

    The last offset of a batch that is damaged on the broker's disk may.
    """
    after = BatchHeader(end, end, 0, b"")
    for header, following in pairwise([*headers, after]):
        yield replace(header, last=min(header.last, max(following.first - 1, header.first)))
