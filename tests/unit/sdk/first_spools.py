"""Spools as versions before the nonce wrote them."""

import struct
import zlib
from collections.abc import Sequence
from pathlib import Path

from atdp.sdk.record_framing import SpoolRecord

from .spool_files import record


def first_frame(record: SpoolRecord, headers: bytes = b"") -> bytes:
    """The frame of a record; the earliest versions wrote headers into it."""
    fixed = struct.pack(
        "<B16sHH", record.redelivery, record.record_id, len(record.key), len(headers)
    )
    body = b"".join((fixed, record.key, headers, record.value))
    return struct.pack("<II", len(body), zlib.crc32(body)) + body


FIRST_SIZE = len(first_frame(record(0)))


def position_entry(position: int) -> bytes:
    return struct.pack("<QI", position, zlib.crc32(position.to_bytes(8, "little")))


def first_spool(
    root: Path, segments: Sequence[Sequence[SpoolRecord]], cursor: int = 0
) -> list[Path]:
    """The spool of a dead process in a new folder of `root`; returns its segment files."""
    folder = root / "4711-0a1b2c3d"
    folder.mkdir(parents=True)
    (folder / "lock").touch()
    paths, end = [], 0
    for records in segments:
        paths.append(folder / f"{end:016x}.seg")
        content = b"".join(first_frame(each) for each in records)
        paths[-1].write_bytes(content)
        end += len(content)
    (folder / "cursor").write_bytes(position_entry(cursor) + position_entry(end))
    return paths
