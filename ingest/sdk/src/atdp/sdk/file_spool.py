"""A spool in segment files of one folder.

Segment files are named by the position of their first byte. A plain `pwrite` puts records into the
page cache, from where they survive the death of the process; with `sync` each one also waits for
`fdatasync` and survives the loss of power. The end of the spool is known in memory and moves only
after a whole frame was written, so a failed or interrupted write is overwritten by the next one,
and a reader never sees half a record. After a crash the end is found again by reading the last
segment up to its last intact frame. The cursor is read from its file, and records behind it are
sent again, so delivery is at least once.

Damage is passed over by the lengths of frames. Bytes that cannot be read are counted as skipped and
kept aside in a file `*.damaged` beside the spools. Bytes that are missing at the end are counted
too: the end that `append` reached is kept beside the cursor. Only a frame that was torn off behind
that end, whose append never returned, is cut without being counted.
"""

import contextlib
import os
import threading
from pathlib import Path

from atdp.sdk.errors import SpoolFullError
from atdp.sdk.record_framing import (
    PREFIX_BYTES,
    SpoolRecord,
    behind_damage,
    body_length,
    decode_frame,
    encode_frame,
    holds_frame,
)
from atdp.sdk.spool import DEFAULT_LIMIT_BYTES, Batch, Stored, wait_for_room
from atdp.sdk.spool_locks import OwnedFolder, SpoolFolders
from atdp.sdk.spool_positions import SpoolPositions

SEGMENT_BYTES = 8 * 1024 * 1024
"""Size of a segment file, which is deleted as a whole. Smaller segments mean more files; larger
ones hold more disk space after an acknowledgement."""

_SEGMENT_SUFFIX = ".seg"


class FileSpool:
    """A spool in segment files of one folder."""

    def __init__(
        self,
        folder: OwnedFolder,
        folders: SpoolFolders,
        *,
        limit_bytes: int = DEFAULT_LIMIT_BYTES,
        sync: bool = False,
        segment_bytes: int = SEGMENT_BYTES,
    ) -> None:
        """Open a folder that this process owns, new or adopted.

        An adopted spool is cut behind its last record. The bound counts bytes that are not
        acknowledged; the files may hold up to one segment more.
        """
        self._folder = folder
        self._folders = folders
        self._limit = limit_bytes
        self._sync = sync
        self._segment_bytes = max(1, min(segment_bytes, limit_bytes))
        self._room = threading.Condition(threading.Lock())
        self._bases = sorted(int(path.stem, 16) for path in folder.path.glob(f"*{_SEGMENT_SUFFIX}"))
        self._segment_fd = -1  # opened by the first append
        self._positions = SpoolPositions(folder.path)
        self._skipped: dict[int, int] = {}  # bytes of damage by position
        oldest = self._bases[0] if self._bases else 0
        # Without a readable cursor, every record of the spool is sent again.
        self.cursor = max(oldest, self._positions.cursor() or 0)
        self.end = self._cut_torn_tail()
        self._count_missing_end()
        if self.cursor > self.end:
            self.cursor = self.end
            self._positions.write_cursor(self.end)

    @property
    def skipped_bytes(self) -> int:
        """Bytes that could not be read back as records."""
        return sum(self._skipped.values())

    def append(self, record: SpoolRecord, *, wait_s: float = 0.0) -> int:
        """Take a record; see Spool. A disk without room counts as a full spool."""
        frame = encode_frame(record)
        with self._room:
            wait_for_room(
                self._room,
                lambda: self.end - self.cursor + len(frame) <= self._limit,
                wait_s,
                self._limit,
            )
            try:
                if self._segment_fd < 0 or self._is_spent(len(frame)):
                    self._begin_segment()
                written = os.pwrite(self._segment_fd, frame, self.end - self._bases[-1])
                if self._sync:
                    os.fdatasync(self._segment_fd)
            except OSError as error:
                raise SpoolFullError(
                    f"{self._folder.path} takes no more bytes: {error.strerror}"
                ) from error
            if written < len(frame):
                raise SpoolFullError(f"{self._folder.path} takes no more bytes: the disk is full")
            self.end += written
            # The record is taken. Without this entry, only a later loss of it is not counted.
            with contextlib.suppress(OSError):
                self._positions.write_end(self.end)
            return self.end

    def read(self, position: int, max_bytes: int) -> Batch:
        """Return records from `position` on; see Spool. Reads one segment at a time."""
        with self._room:  # a new segment changes bases and end together
            bases, end = tuple(self._bases), self.end
        while position < end:
            index = _segment_of(bases, position)
            stop = bases[index + 1] if index + 1 < len(bases) else end
            batch = self._read_segment(bases[index], position, stop, max_bytes)
            if batch:
                return Batch(batch, batch[-1].end)
            rest = self._bytes(bases[index], position, stop)
            step = behind_damage(rest)
            # Where the lengths lead to no frame, only the next segment is known to begin with one.
            next_position = stop if step is None else position + step
            self._skip(position, next_position, rest)
            position = next_position
        return Batch([], position)

    def acknowledge(self, position: int) -> None:
        """Move the cursor and delete segments that lie before it."""
        with self._room:
            if position <= self.cursor:
                return
            self.cursor = position
            self._positions.write_cursor(position)
            self._delete_acknowledged()
            self._room.notify_all()

    def close(self) -> None:
        """Close the files; remove the folder when everything in it is acknowledged."""
        self._close_files()
        if self.cursor >= self.end:
            self._folders.remove(self._folder)
        else:
            self._folder.release()

    def abandon(self) -> None:
        """Close the copies of the descriptors, in a forked child.

        No lock is taken, since another thread of the parent may have held it.
        """
        self._close_files()
        self._folder.abandon()

    def _close_files(self) -> None:
        if self._segment_fd >= 0:
            os.close(self._segment_fd)
        self._segment_fd = -1
        self._positions.close()

    def _path(self, base: int) -> Path:
        return self._folder.path / f"{base:016x}{_SEGMENT_SUFFIX}"

    def _is_spent(self, incoming_bytes: int) -> bool:
        used = self.end - self._bases[-1]
        if used + incoming_bytes > self._segment_bytes:
            return used > 0
        # A segment that is acknowledged as a whole is given back early, so an idle agent holds
        # little disk.
        return self.cursor >= self.end and 2 * used > self._segment_bytes

    def _begin_segment(self) -> None:
        fd = os.open(
            self._path(self.end), os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600
        )
        if self._segment_fd >= 0:
            os.close(self._segment_fd)
        self._segment_fd = fd
        if not self._bases or self._bases[-1] != self.end:
            self._bases.append(self.end)
        if self._sync:
            directory = os.open(self._folder.path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(directory)
            finally:
                os.close(directory)
        self._delete_acknowledged()

    def _delete_acknowledged(self) -> None:
        while len(self._bases) > 1 and self._bases[1] <= self.cursor:
            self._path(self._bases.pop(0)).unlink(missing_ok=True)

    def _read_segment(self, base: int, position: int, stop: int, max_bytes: int) -> list[Stored]:
        try:
            fd = os.open(self._path(base), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return []
        try:
            buffer = os.pread(fd, min(max_bytes, stop - position), position - base)
            first = body_length(buffer[:PREFIX_BYTES])
            if first is not None and len(buffer) < PREFIX_BYTES + first <= stop - position:
                buffer = os.pread(fd, PREFIX_BYTES + first, position - base)
        finally:
            os.close(fd)
        return _parse(buffer, position)

    def _cut_torn_tail(self) -> int:
        if not self._bases:
            return 0
        base = self._bases[-1]
        path = self._path(base)
        stop = base + path.stat().st_size
        end = min(max(base, self.cursor), stop)  # acknowledged records are not read
        while True:
            while batch := self._read_segment(base, end, stop, SEGMENT_BYTES):
                end = batch[-1].end
            rest = self._bytes(base, end, stop)
            step = behind_damage(rest)
            if step is None or step == len(rest):
                break
            end += step  # `read` passes the damage and counts it
        if rest:
            if step is not None or holds_frame(rest) or end < (self._positions.end() or 0):
                self._skip(end, stop, rest)
            os.truncate(path, end - base)
        return end

    def _count_missing_end(self) -> None:
        """Count the records between the end found and the end that `append` reached."""
        reached = self._positions.end()
        if reached is None or reached == self.end:
            return
        missing = reached - max(self.end, self.cursor)
        if missing > self._skipped.get(self.end, 0):
            self._skipped[self.end] = missing
        self._positions.write_end(self.end)

    def _bytes(self, base: int, position: int, stop: int) -> bytes:
        try:
            with self._path(base).open("rb") as segment:
                segment.seek(position - base)
                return segment.read(stop - position)
        except FileNotFoundError:
            return b""

    def _skip(self, position: int, next_position: int, rest: bytes) -> None:
        """Count the bytes between the positions as lost, and keep aside those that are there."""
        if position not in self._skipped and rest:
            with contextlib.suppress(OSError):  # the loss is counted in any case
                self._folders.keep_aside(self._folder, position, rest[: next_position - position])
        self._skipped[position] = next_position - position


def _parse(buffer: bytes, position: int) -> list[Stored]:
    batch: list[Stored] = []
    at = 0
    while (decoded := decode_frame(buffer, at)) is not None:
        record, end = decoded
        batch.append(Stored(record, position + at, position + end))
        at = end
    return batch


def _segment_of(bases: tuple[int, ...], position: int) -> int:
    return max(index for index, base in enumerate(bases) if base <= position)
