"""Record batches that no client library would build, sent to a broker as raw ProduceRequests.

The layout is that of record batches of version 2 (Kafka protocol guide, "Record Batch").
"""

import gzip
import socket
import struct
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import pyarrow as pa

from atdp.runtime.checksums import crc32c

Codec: TypeAlias = Literal["none", "gzip", "snappy", "lz4", "zstd"]
CODECS: Final[Mapping[Codec, int]] = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}

_PRODUCE, _INIT_PRODUCER, _ADD_PARTITIONS, _END_TRANSACTION = 0, 22, 24, 26
_TIMEOUT_S: Final = 60.0


def varint(number: int) -> bytes:
    """Return a signed number in zigzag coding."""
    rest = (number << 1) ^ (number >> 63)
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def record(
    value: bytes,
    index: int = 0,
    *,
    key: bytes = b"",
    headers: Sequence[tuple[bytes, bytes]] = (),
) -> bytes:
    """Return one record; `index` is its offset after the first one of its batch."""
    body = b"\0" + varint(0) + varint(index)
    body += varint(len(key)) + key + varint(len(value)) + value
    body += varint(len(headers))
    for name, content in headers:
        body += varint(len(name)) + name + varint(len(content)) + content
    return varint(len(body)) + body


def compressed(codec: Codec, records: bytes) -> bytes:
    """Return the records as a Kafka producer compresses them."""
    if codec == "none":
        return records
    if codec == "gzip":
        return gzip.compress(records)
    if codec == "snappy":
        block = bytes(pa.compress(records, codec="snappy", asbytes=True))
        # The framing of snappy-java, which Kafka uses.
        return b"\x82SNAPPY\0" + struct.pack(">iii", 1, 1, len(block)) + block
    return bytes(pa.compress(records, codec=codec, asbytes=True))


def batch(
    codec: Codec | int, payload: bytes, count: int = 1, *, producer: tuple[int, int] = (-1, -1)
) -> bytes:
    """Return a batch with a valid checksum around any payload.

    `producer` is the id and the epoch of a transaction that it belongs to.
    """
    bits = codec if isinstance(codec, int) else CODECS[codec]
    owner, epoch = producer
    bits |= 0x10 if owner >= 0 else 0
    # The present, because the broker deletes old records.
    now_ms = time.time_ns() // 1_000_000
    times = struct.pack(">qq", now_ms, now_ms)
    producer_state = struct.pack(">qhi", owner, epoch, min(owner, 0))
    body = struct.pack(">hi", bits, count - 1) + times + producer_state
    body += struct.pack(">i", count) + payload
    length = 4 + 1 + 4 + len(body)
    return struct.pack(">qiibI", 0, length, -1, 2, crc32c(body)) + body


def bomb(codec: Literal["gzip", "lz4", "zstd"], size: int) -> bytes:
    """Return a batch of one record whose value is `size` zeros."""
    start = b"\0" + varint(0) + varint(0) + varint(0) + varint(size)
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, codec) as stream:
        stream.write(varint(len(start) + size + 1) + start)
        for _ in range(size >> 20):
            stream.write(bytes(1 << 20))
        stream.write(bytes(size & (1 << 20) - 1))
        stream.write(varint(0))
    return batch(codec, sink.getvalue().to_pybytes())


@dataclass(frozen=True, slots=True)
class ProduceAnswer:
    """The broker's answer: an error code of the protocol (0: none), and the first offset."""

    error: int
    offset: int
    why: str


def produce(
    bootstrap: str, topic: str, partition: int, data: bytes, *, transaction: str | None = None
) -> ProduceAnswer:
    """Send one batch to one partition in a raw ProduceRequest."""
    name = topic.encode()
    request = struct.pack(">h", -1) if transaction is None else _text(transaction)
    request += struct.pack(">hii", -1, 30_000, 1)
    request += _text(topic) + struct.pack(">iii", 1, partition, len(data)) + data
    answer = _ask(bootstrap, _PRODUCE, 8, request)
    at = 4 + 4 + 2 + len(name) + 4
    _, error, offset = struct.unpack_from(">ihq", answer, at)
    return ProduceAnswer(error, offset, _reason(answer, at + 4 + 2 + 8 + 8 + 8))


def produce_committed(
    bootstrap: str, topic: str, partition: int, codec: Codec, payload: bytes, count: int
) -> ProduceAnswer:
    """Send one batch in a transaction of its own, and commit it.

    The broker must have had a transaction before.
    """
    name = _text(f"hostile-{topic}-{partition}-{crc32c(payload)}")
    answer = _ask(bootstrap, _INIT_PRODUCER, 0, name + struct.pack(">i", 30_000))
    error, owner, epoch = struct.unpack_from(">hqh", answer, 8)
    assert error == 0, error
    mark = name + struct.pack(">qh", owner, epoch)
    place = struct.pack(">i", 1) + _text(topic) + struct.pack(">ii", 1, partition)
    answer = _ask(bootstrap, _ADD_PARTITIONS, 0, mark + place)
    assert answer[-2:] == b"\0\0", answer
    data = batch(codec, payload, count, producer=(owner, epoch))
    produced = produce(bootstrap, topic, partition, data, transaction=name[2:].decode())
    answer = _ask(bootstrap, _END_TRANSACTION, 0, mark + b"\1")
    assert answer[-2:] == b"\0\0", answer
    return produced


def _text(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def _ask(bootstrap: str, api: int, version: int, body: bytes) -> bytes:
    """Return the answer to a request, which begins with the request's number."""
    request = struct.pack(">hhih", api, version, 1, -1) + body
    host, _, port = bootstrap.rpartition(":")
    with socket.create_connection((host, int(port)), _TIMEOUT_S) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        (size,) = struct.unpack(">i", _exactly(connection, 4))
        return _exactly(connection, size)


def _reason(answer: bytes, at: int) -> str:
    """Return the messages of the broker about single records and about the batch."""
    (errors,) = struct.unpack_from(">i", answer, at)
    at += 4
    reasons = []
    for is_record in [True] * max(errors, 0) + [False]:
        at += 4 if is_record else 0
        (length,) = struct.unpack_from(">h", answer, at)
        at += 2
        if length > 0:
            reasons.append(answer[at : at + length].decode())
            at += length
    return "; ".join(reasons)


def _exactly(connection: socket.socket, size: int) -> bytes:
    parts = []
    while size:
        part = connection.recv(min(size, 1 << 20))
        if not part:
            raise ConnectionError("the broker closed the connection")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
