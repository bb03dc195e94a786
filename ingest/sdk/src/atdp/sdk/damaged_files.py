"""The files `*.damaged` beside the spools: bytes from which a reader could not read a record.

The name of a file holds the position of its bytes in their spool, and the nonce of their segment
unless the segment was of the first format. Some of the bytes may still be records. In the first
format, one damaged length hid all records behind it; they are looked for at every byte. There,
bytes that look like a frame may be part of a value of the damaged record, so each record must also
be an event of the tenant whose id is that of the record. In the present format a record is hidden
only where its nonce alone is damaged.
"""

import re
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from atdp.schemas import SchemaError, decode
from atdp.sdk.first_framing import FirstFraming
from atdp.sdk.record_framing import NONCE_BYTES, NonceFraming, SpoolRecord

_NAME = re.compile(r"[0-9]+-[0-9a-f]{8}-([0-9a-f]{16})(?:-([0-9a-f]{16}))?\.damaged")
"""Name of the spool folder (spool_locks.py), position, nonce."""


@dataclass(frozen=True, slots=True)
class Salvage:
    """The records that can be read back from damaged bytes, and the rest of the bytes."""

    records: tuple[SpoolRecord, ...]
    rest: bytes
    readable_bytes: int


@dataclass(frozen=True, slots=True)
class DamagedFile:
    """One file of damaged bytes."""

    path: Path
    position: int
    nonce: bytes | None
    """None: of the first format."""

    def salvage(self, tenant: str) -> Salvage:
        """Read the records of `tenant` that can still be read."""
        buffer = self.path.read_bytes()
        found = list(_frames_of(buffer, self.position, self.nonce, tenant))
        rest, at = [], 0
        for start, _, end in found:
            rest.append(buffer[at:start])
            at = end
        rest.append(buffer[at:])
        unread = b"".join(rest)
        records = tuple(record for _, record, _ in found)
        return Salvage(records, unread, len(buffer) - len(unread))


def damaged_files(folder: Path) -> list[DamagedFile]:
    """Return the files of damaged bytes in a tenant's folder of spools."""
    named = [(path, _NAME.fullmatch(path.name)) for path in sorted(folder.iterdir())]
    return [_damaged_file(path, name) for path, name in named if name]


def damaged_name(spool: str, position: int, nonce: bytes | None) -> str:
    """Return the name of the file for damaged bytes of a spool."""
    place = f"{position:016x}" if nonce is None else f"{position:016x}-{nonce.hex()}"
    return f"{spool}-{place}.damaged"


def _damaged_file(path: Path, name: re.Match[str]) -> DamagedFile:
    position, nonce = name.groups()
    return DamagedFile(path, int(position, 16), bytes.fromhex(nonce) if nonce else None)


def _frames_of(
    buffer: bytes, position: int, nonce: bytes | None, tenant: str
) -> Iterator[tuple[int, SpoolRecord, int]]:
    if nonce is not None:
        return _frames_with(NonceFraming(nonce), buffer, position)
    found = FirstFraming().frames_anywhere(buffer)
    return (each for each in found if _is_event(each[1], tenant))


def _frames_with(
    framing: NonceFraming, buffer: bytes, position: int
) -> Iterator[tuple[int, SpoolRecord, int]]:
    at: int | None = 0
    while at is not None and at < len(buffer):
        rest = framing.nonce + buffer[at + NONCE_BYTES :]
        decoded = framing.decode(rest, 0, position + at)
        if decoded is None:
            step = framing.behind_damage(rest, position + at)
            at = None if step is None else at + step
        else:
            record, length = decoded
            yield at, record, at + length
            at += length


def _is_event(record: SpoolRecord, tenant: str) -> bool:
    try:
        event = decode(record.value)
    except SchemaError:
        return False
    is_same = uuid.UUID(event.event_id).bytes == record.record_id and event.key == record.key
    return is_same and event.tenant_id == tenant
