"""Holds the offsets that records come with against the batches of the broker.

The number of a record within its batch is the sender's, and the broker does not check it. A record
with a number that is too large would make governance go on behind records that it has not read; one
that is too small would make it commit an offset before records that it has governed. So the records
of a partition must come with offsets that have no hole and never go back. Where they do not, the
broker is asked which batches are there. Markers of transactions, aborted records and what retention
has deleted leave holes. The rest of any other batch is passed over as unreadable.
"""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Protocol

from atdp.runtime import BatchHeader, ProbeFailed, UnreadableBatch

_log = logging.getLogger("atdp.governance")
_WRONG_OFFSETS: Final = "its records do not have the offsets of their batch"
_MOST_LOOKED_AT: Final = 8 << 20
"""Bytes of batches that are examined in one look; a larger first one is looked at as well."""
_NO_RECORDS: Final = "it is damaged, or compressed in a way that gives no records"


class BatchIndex(Protocol):
    """The batches of the broker."""

    def walk(self, topic: str, partition: int, offset: int) -> Iterator[BatchHeader]:
        """Yield the batches from the one that holds an offset on, or from the next one.

        Ends where the partition ends, and gives nothing for an offset that it does not have.

        Raises:
            ProbeFailed: the broker did not answer.
        """
        ...


@dataclass(frozen=True, slots=True)
class Detour:
    """The offset at which reading goes on, and the batch that is passed over, if any."""

    offset: int
    batch: UnreadableBatch | None = None


class RawOffsets:
    """The next offset of each partition. Not thread-safe."""

    def __init__(self, index: BatchIndex, start: Callable[[str, int], int]) -> None:
        """`start` returns the offset at which reading a partition began."""
        self._index = index
        self._start = start
        self._next: dict[tuple[str, int], int] = {}

    def next_of(self, place: tuple[str, int]) -> int:
        """Return the offset that the next record of a partition must have."""
        if place not in self._next:
            self._next[place] = self._start(*place)
        return self._next[place]

    def went_to(self, place: tuple[str, int], offset: int) -> None:
        """Note where reading goes on; a negative offset is a place that is not known yet."""
        self._next.pop(place, None)
        if offset >= 0:
            self._next[place] = offset

    def forget(self) -> None:
        """Forget every partition: the assignment has changed."""
        self._next.clear()

    def detour(self, place: tuple[str, int], offset: int) -> Detour | None:
        """Return where to go on instead of taking a record at `offset`; None: it is the next."""
        expected = self.next_of(place)
        try:
            if offset < expected:
                return self._behind(place, expected)
            if offset > expected and (found := self._hole(place, expected, offset)) is not None:
                return found
        except ProbeFailed as failure:
            _log.warning("the offset of a record cannot be checked", extra={"why": str(failure)})
            return Detour(expected)
        self._next[place] = offset + 1
        return None

    def silent(self, place: tuple[str, int]) -> Detour | None:
        """Return how to pass over batches that the client passes over in silence; None: no such.

        Those that follow each other are one entry. Offsets before the next batch with records are
        done with, so that nobody asks about the marker of a transaction twice.
        """
        found: Detour | None = None
        left = _MOST_LOOKED_AT
        try:
            for header in self._index.walk(*place, self.next_of(place)):
                left -= len(header.stored)
                if header.holds_records:
                    if not header.is_unreadable:
                        break
                    first = max(self.next_of(place), header.first)
                    found = _pass_over(place, first, header, _NO_RECORDS, earlier=found)
                elif found is None:
                    self._next[place] = header.last + 1
                if left < 0:
                    break
        except ProbeFailed as failure:
            _log.info("a partition cannot be looked at", extra={"why": str(failure)})
        return found

    def _behind(self, place: tuple[str, int], expected: int) -> Detour:
        """Return the detour for a record whose offset was taken already.

        It belongs to the first batch with records that are not read yet.
        """
        for header in self._index.walk(*place, max(0, expected - 1)):
            if header.holds_records and header.last >= expected:
                return _pass_over(place, max(expected, header.first), header, _WRONG_OFFSETS)
        return Detour(expected)

    def _hole(self, place: tuple[str, int], expected: int, offset: int) -> Detour | None:
        """Return the detour for a record that leaves out offsets; None when none has a record."""
        for header in self._index.walk(*place, expected):
            if header.first >= offset:
                return None
            if header.holds_records:
                return _pass_over(place, max(expected, header.first), header, _WRONG_OFFSETS)
            if header.last >= offset - 1:
                return None
        # Deleted by retention, if the record itself is there.
        own = next(self._index.walk(*place, offset), None)
        return None if own is not None and own.first <= offset else Detour(expected)


def _pass_over(
    place: tuple[str, int],
    first: int,
    header: BatchHeader,
    why: str,
    *,
    earlier: Detour | None = None,
) -> Detour:
    """Return the detour from `first`, or from where an earlier one begins, to behind a batch."""
    topic, partition = place
    after = header.last + 1
    if earlier is not None and earlier.batch is not None:
        first = earlier.batch.first
    batch = UnreadableBatch(topic=topic, partition=partition, first=first, after=after, why=why)
    return Detour(after, batch)
