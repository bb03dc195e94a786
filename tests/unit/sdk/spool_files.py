"""Spools of numbered records, as tests make and damage them."""

from pathlib import Path

from atdp.sdk.file_spool import SEGMENT_BYTES, FileSpool
from atdp.sdk.record_framing import FRAME_BYTES, SpoolRecord
from atdp.sdk.spool import Spool
from atdp.sdk.spool_locks import OwnedFolder, SpoolFolders


def record(number: int, size: int = 20) -> SpoolRecord:
    return SpoolRecord(
        record_id=number.to_bytes(16, "big"), key=b"k", value=number.to_bytes(size, "big")
    )


SIZE = FRAME_BYTES + 21
"""Bytes of the frame of such a record."""


def numbers(spool: Spool, position: int | None = None) -> list[int]:
    """Everything in the spool from a position on, as the numbers put in."""
    at = spool.cursor if position is None else position
    result = []
    while at < spool.end:
        batch = spool.read(at, 64)
        result += [int.from_bytes(stored.record.value, "big") for stored in batch.records]
        at = batch.next_position
    return result


def new_spool(root: Path, count: int, segment_bytes: int = SEGMENT_BYTES) -> FileSpool:
    """A new spool of `count` records."""
    folders = SpoolFolders(root)
    spool = FileSpool(folders.create(), folders, segment_bytes=segment_bytes)
    for number in range(count):
        spool.append(record(number))
    return spool


def crashed(spool: FileSpool) -> OwnedFolder:
    """The folder of a spool whose process died: all that is left are its files."""
    folder = spool._folder
    spool.abandon()
    return folder


def adopted(folders: SpoolFolders, segment_bytes: int = SEGMENT_BYTES) -> FileSpool:
    (folder,) = folders.adopt()
    return FileSpool(folder, folders, segment_bytes=segment_bytes)
