"""The positions of a file spool that survive the process: its cursor and its end.

Both lie in one small file, each as 8 bytes little-endian with a CRC-32, so that a torn entry is
recognised. The cursor says what the event log has. The end says what `append` has taken: without
it, a file that lost its end could not be told from one whose last append was interrupted.

A plain `pwrite` puts an entry into the page cache, from where it survives the death of the process.
After a loss of power an entry may be older than the records. An older cursor means that records are
sent again; an older end, that less damage may be counted.
"""

import os
import struct
import zlib
from pathlib import Path

_ENTRY = struct.Struct("<QI")  # position, CRC-32 of the position's bytes
_CURSOR_AT = 0
_END_AT = _ENTRY.size
_FILE_NAME = "cursor"


class SpoolPositions:
    """The file of one spool folder."""

    def __init__(self, folder: Path) -> None:
        """Open the file, or make it, readable by its user only."""
        self._fd = os.open(folder / _FILE_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def cursor(self) -> int | None:
        """Return the cursor; None when none was written or the entry is torn."""
        return self._read(_CURSOR_AT)

    def end(self) -> int | None:
        """Return the end; None when none was written or the entry is torn."""
        return self._read(_END_AT)

    def write_cursor(self, position: int) -> None:
        """Keep the cursor."""
        os.pwrite(self._fd, _entry(position), _CURSOR_AT)

    def write_end(self, position: int) -> None:
        """Keep the end."""
        os.pwrite(self._fd, _entry(position), _END_AT)

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1

    def _read(self, at: int) -> int | None:
        raw = os.pread(self._fd, _ENTRY.size, at)
        if len(raw) < _ENTRY.size:
            return None
        position: int
        position, crc = _ENTRY.unpack(raw)
        return position if crc == zlib.crc32(raw[:8]) else None


def _entry(position: int) -> bytes:
    return _ENTRY.pack(position, zlib.crc32(position.to_bytes(8, "little")))
