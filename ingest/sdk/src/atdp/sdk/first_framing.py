"""The form of a record in segment files that earlier versions wrote; it is only read.

A frame is `length | crc | flags | record id | key length | skipped length | key | skipped | value`,
little-endian. The CRC covers everything after itself. Nothing marks the beginning of a frame, so
damage is passed over by the lengths of frames alone: bytes that look like a frame may be part of a
value. A damaged length costs the rest of its segment.
"""

import struct
import zlib
from collections.abc import Iterator

from atdp.sdk.record_framing import REDELIVERY, SpoolRecord

_FRAME = struct.Struct("<II")  # body length in bytes, CRC-32 of the body
_BODY = struct.Struct("<B16sHH")  # flags, record id, key length, skipped length
_SMALLEST = _FRAME.size + _BODY.size
MAX_BODY_BYTES = 256 * 1024 * 1024
"""A longer length can only be damage: no broker takes such a record."""


class FirstFraming:
    """The frames of a segment of the first format."""

    def decode(
        self,
        buffer: bytes,
        offset: int,
        position: int,  # noqa: ARG002 - these frames do not know their position
    ) -> tuple[SpoolRecord, int] | None:
        """Return the record at `offset`; see Framing."""
        start = offset + _FRAME.size
        if offset + _SMALLEST > len(buffer):
            return None
        length, crc = _FRAME.unpack_from(buffer, offset)
        end = start + length
        if length < _BODY.size or end > len(buffer):
            return None
        if zlib.crc32(memoryview(buffer)[start:end]) != crc:
            return None
        flags, record_id, key_length, skipped_length = _BODY.unpack_from(buffer, start)
        key_at = start + _BODY.size
        skipped_at = key_at + key_length
        record = SpoolRecord(
            record_id=record_id,
            key=buffer[key_at:skipped_at],
            value=buffer[skipped_at + skipped_length : end],
            redelivery=bool(flags & REDELIVERY),
        )
        return record, end

    def frame_bytes(self, buffer: bytes) -> int | None:
        """Return the length of a frame at the beginning of the buffer; see Framing."""
        if len(buffer) < _FRAME.size:
            return None
        length: int = _FRAME.unpack_from(buffer)[0]
        return _FRAME.size + length if _BODY.size <= length <= MAX_BODY_BYTES else None

    def behind_damage(self, buffer: bytes, position: int) -> int | None:
        """Return the next intact frame that the lengths of the frames lead to; see Framing."""
        at = 0
        while (length := self.frame_bytes(buffer[at : at + _FRAME.size])) is not None:
            at += length
            if at >= len(buffer):
                return None
            if self.decode(buffer, at, position) is not None:
                return at
        return None

    def frames_anywhere(self, buffer: bytes) -> Iterator[tuple[int, SpoolRecord, int]]:
        """Yield what looks like an intact frame, with its begin and end, wherever it begins.

        It may be a part of a value that holds such bytes.
        """
        at = 0
        while at <= len(buffer) - _SMALLEST:
            found = self._decode_cheaply(buffer, at)
            if found is None:
                at += 1
                continue
            yield at, *found
            at = found[1]

    def _decode_cheaply(self, buffer: bytes, at: int) -> tuple[SpoolRecord, int] | None:
        """Decode, with checks first that spare the checksum of almost every possible length."""
        length, _ = _FRAME.unpack_from(buffer, at)
        if not _BODY.size <= length <= len(buffer) - at - _FRAME.size:
            return None
        return self.decode(buffer, at, 0) if buffer[at + _FRAME.size] <= REDELIVERY else None
