"""The segment files of a spool, as they are read.

A segment file begins at a position of the spool, its base, and ends before the base of the next
one. Its name holds the base and the nonce of its frames, so that no byte within the file is needed
to read the others. A name without a nonce is of the first format. Files are read by system calls
and never mapped: a file that somebody shortens meanwhile is then short, where a mapping would end
the process.
"""

import bisect
import itertools
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from atdp.sdk.first_framing import FirstFraming
from atdp.sdk.record_framing import FRAME_BYTES, Framing, NonceFraming
from atdp.sdk.spool import Stored

_NAME = re.compile(r"([0-9a-f]{16})(?:-([0-9a-f]{16}))?\.seg")
_SCAN_BYTES = 1024 * 1024  # read at a time where a whole spool is read


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes from `start` (inclusive) to `stop` (exclusive) that no record can be read from."""

    start: int
    stop: int
    remains: bytes
    """The bytes of them that are left in the file; none where the file ends before."""
    framing: Framing


Passage: TypeAlias = Stored | Damage


@dataclass(frozen=True, slots=True)
class SegmentFile:
    """One file of frames, from the position `base` on."""

    path: Path
    base: int
    framing: Framing

    def content(self, position: int, stop: int | None = None) -> bytes:
        """Return what the file holds from `position` to `stop` (exclusive; None: to its end)."""
        try:
            fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return b""
        try:
            behind = self.base + os.fstat(fd).st_size if stop is None else stop
            return os.pread(fd, max(0, behind - position), position - self.base)
        finally:
            os.close(fd)

    def records(self, position: int, stop: int, max_bytes: int) -> list[Stored]:
        """Return the records from `position` on that fit in `max_bytes`; at least one, if any.

        The list ends before the first bytes that are no intact frame.
        """
        buffer = self.content(position, min(stop, position + max_bytes))
        first = self.framing.frame_bytes(buffer[:FRAME_BYTES])
        if first is not None and len(buffer) < first <= stop - position:
            buffer = self.content(position, position + first)
        return list(_intact(self.framing, buffer, position))

    def intact_end(self, position: int) -> int:
        """Return the position behind the last intact frame that begins at `position` or later."""
        buffer = self.content(position)
        end = at = 0
        while True:
            for stored in _intact(self.framing, buffer[at:], position + at):
                end = stored.end - position
            rest = buffer[end:]
            step = self.framing.behind_damage(rest, position + end) if rest else None
            if step is None:
                return position + end
            at = end + step


def segment_files(folder: Path) -> list[SegmentFile]:
    """Return the segment files of a spool folder, in order.

    Of two with the same base, the one that holds records is the later one. The other one was made
    by a process that was interrupted before it took the file into use.
    """
    named = [(path, _NAME.fullmatch(path.name)) for path in folder.iterdir()]
    segments = sorted((_segment_file(path, name) for path, name in named if name), key=_base)
    twice = {one.base for one, other in itertools.pairwise(segments) if one.base == other.base}
    if twice:
        segments.sort(key=lambda each: (each.base, each.base in twice and _holds_records(each)))
    return segments


def segment_path(folder: Path, base: int, nonce: bytes) -> Path:
    """Return the path of a segment file."""
    return folder / f"{base:016x}-{nonce.hex()}.seg"


def extent(segments: Sequence[SegmentFile], kept_cursor: int | None) -> tuple[int, int]:
    """Return the cursor of a spool and the position behind its last intact record.

    Without a kept cursor, every record counts as not acknowledged.
    """
    cursor = kept_cursor or 0
    if not segments:
        return cursor, cursor
    cursor = max(cursor, segments[0].base)
    return cursor, segments[-1].intact_end(max(cursor, segments[-1].base))


def passages(
    segments: Sequence[SegmentFile], position: int, end: int, max_bytes: int = _SCAN_BYTES
) -> Iterator[list[Passage]]:
    """Yield what lies between `position` and `end`, in order: records, or one damage at a time.

    The first segment begins at `position` or before it.
    """
    while position < end:
        index = bisect.bisect_right(segments, position, key=_base) - 1
        stop = segments[index + 1].base if index + 1 < len(segments) else end
        passage = _passage(segments[index], position, stop, max_bytes)
        position = passage[-1].stop if isinstance(passage[-1], Damage) else passage[-1].end
        yield passage


def _passage(segment: SegmentFile, position: int, stop: int, max_bytes: int) -> list[Passage]:
    records = segment.records(position, stop, max_bytes)
    if records:
        return [*records]
    rest = segment.content(position, stop)
    step = segment.framing.behind_damage(rest, position)
    # Where no frame is found any more, the next segment is known to begin with one.
    behind = stop if step is None else position + step
    return [Damage(position, behind, rest[: behind - position], segment.framing)]


def _intact(framing: Framing, buffer: bytes, position: int) -> Iterator[Stored]:
    at = 0
    while (decoded := framing.decode(buffer, at, position)) is not None:
        record, end = decoded
        yield Stored(record, position + at, position + end)
        at = end


def _base(segment: SegmentFile) -> int:
    return segment.base


def _holds_records(segment: SegmentFile) -> bool:
    return segment.intact_end(segment.base) > segment.base


def _segment_file(path: Path, name: re.Match[str]) -> SegmentFile:
    base, nonce = name.groups()
    framing = NonceFraming(bytes.fromhex(nonce)) if nonce else FirstFraming()
    return SegmentFile(path, int(base, 16), framing)
