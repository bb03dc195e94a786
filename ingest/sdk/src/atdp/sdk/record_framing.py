"""The form of one record in a spool file.

A frame is `length | crc | flags | record id | key length | skipped length | key | skipped | value`,
little-endian. The CRC covers everything after itself, so a tail that a crash tore off, or zeros
that a file system left there, is never taken for a record. A frame holds all that a sender needs
but the signature, so nothing has to be decoded to send a record again. Nothing is written into the
skipped part, where earlier versions kept headers.
"""

import struct
import zlib
from dataclasses import dataclass

_FRAME = struct.Struct("<II")  # body length in bytes, CRC-32 of the body
_LENGTH = struct.Struct("<I")
_BODY = struct.Struct("<B16sHH")  # flags, record id, key length, skipped length
PREFIX_BYTES = _FRAME.size
MAX_BODY_BYTES = 256 * 1024 * 1024
"""A longer length can only be damage: no broker takes such a record."""
REDELIVERY = 0x01  # the record may have been sent before


@dataclass(frozen=True, slots=True, kw_only=True)
class SpoolRecord:
    """One record on its way to the event log; bytes only."""

    record_id: bytes  # 16 bytes: the event id as a UUID
    key: bytes
    value: bytes
    redelivery: bool = False  # may have been sent before; the audit says so


def encode_frame(record: SpoolRecord) -> bytes:
    """Return the frame of `record`.

    Raises:
        struct.error: the key is too long for its field of a frame.
    """
    fixed = _BODY.pack(REDELIVERY if record.redelivery else 0, record.record_id, len(record.key), 0)
    body = b"".join((fixed, record.key, record.value))
    return _FRAME.pack(len(body), zlib.crc32(body)) + body


def decode_frame(buffer: bytes | memoryview, offset: int) -> tuple[SpoolRecord, int] | None:
    """Return the record at `offset` and the offset after it.

    None means that the bytes there are not one whole, intact frame.
    """
    view = memoryview(buffer)
    start = offset + PREFIX_BYTES
    if start > len(view):
        return None
    length, crc = _FRAME.unpack_from(view, offset)
    end = start + length
    if length < _BODY.size or end > len(view) or zlib.crc32(view[start:end]) != crc:
        return None
    flags, record_id, key_length, skipped_length = _BODY.unpack_from(view, start)
    key_at = start + _BODY.size
    skipped_at = key_at + key_length
    value_at = skipped_at + skipped_length
    record = SpoolRecord(
        record_id=record_id,
        key=bytes(view[key_at:skipped_at]),
        value=bytes(view[value_at:end]),
        redelivery=bool(flags & REDELIVERY),
    )
    return record, end


def body_length(prefix: bytes) -> int | None:
    """Return the length in bytes of the body behind `prefix`; None when no frame can begin so."""
    if len(prefix) < PREFIX_BYTES:
        return None
    length: int = _FRAME.unpack_from(prefix)[0]
    return length if _BODY.size <= length <= MAX_BODY_BYTES else None


def behind_damage(buffer: bytes) -> int | None:
    """Return the place to go on reading when no intact frame begins at 0.

    It is the next intact frame that the lengths of the frames lead to, or the end of the buffer.
    None means that they lead to neither. Only lengths are followed, because bytes that look like a
    frame may be part of a value.
    """
    at = 0
    while (length := body_length(buffer[at : at + PREFIX_BYTES])) is not None:
        at += PREFIX_BYTES + length
        if at > len(buffer):
            return None
        if at == len(buffer) or decode_frame(buffer, at) is not None:
            return at
    return None


def holds_frame(buffer: bytes) -> bool:
    """Return whether an intact frame begins anywhere behind the first byte.

    The bytes are then more than one frame that was torn off.
    """
    last = len(buffer) - PREFIX_BYTES - _BODY.size
    for at in range(1, last + 1):
        (length,) = _LENGTH.unpack_from(buffer, at)
        # Three cheap checks come first: the checksum of every possible length would take minutes.
        if (
            _BODY.size <= length <= len(buffer) - at - PREFIX_BYTES
            and buffer[at + PREFIX_BYTES] <= REDELIVERY
            and decode_frame(buffer, at) is not None
        ):
            return True
    return False
