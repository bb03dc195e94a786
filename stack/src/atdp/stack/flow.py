"""How far the stages have come in the event log: what each has left, and waiting until it is read.

A stage has read up to a position per partition (a consumer group's committed offset, or the offsets
in a table's snapshot). The end of a partition is not enough to tell whether something is left: a
transaction's commit marker takes an offset too, so a reader of committed records stops short of the
end for ever. Where a position is before the end, the log itself is asked what stands there next: a
committed record, or records of a transaction that is still open. The latter count as left. A
group's offsets and the records that its transaction wrote become visible each by a marker of its
own, in no fixed order, so "the gate has read everything" does not mean that what it wrote can be
read yet.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

Offsets = Mapping[int, int]
"""Partition → next offset."""


class Log(Protocol):
    """The event log as this module needs it."""

    def ends(self, topic: str) -> Offsets:
        """The offset after the last entry of every partition, records of open transactions included."""
        ...

    def next_unread(self, topic: str, partition: int, at: int) -> int:
        """Offset of the first entry at or after `at` that is a committed record or undecided.

        The end of the partition when there is none.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class Reader:
    """A stage that reads a topic.

    `positions()` says how far it has come; a partition that is absent stands at 0.
    """

    name: str
    topic: str
    positions: Callable[[], Offsets]


@dataclass(frozen=True, kw_only=True)
class Lag:
    """What a reader has left: `waiting` offsets.

    An upper bound of records (offsets without a record count too), and 0 exactly when nothing is
    left, and nothing is undecided.
    """

    reader: str
    topic: str
    waiting: int
    position: int
    partitions: Offsets = field(default_factory=dict)

    def row(self) -> dict[str, object]:
        """For a table of people."""
        return {
            "reader": self.reader,
            "topic": self.topic,
            "waiting": self.waiting,
            "read up to": self.position,
        }


def lag(log: Log, reader: Reader, ends: Offsets | None = None) -> Lag:
    """What `reader` has left before `ends` (default: the ends of now)."""
    limits = log.ends(reader.topic) if ends is None else ends
    positions = reader.positions()
    left = {}
    for partition, end in limits.items():
        at = positions.get(partition, 0)
        if at < end and (unread := log.next_unread(reader.topic, partition, at)) < end:
            left[partition] = end - unread
    return Lag(
        reader=reader.name,
        topic=reader.topic,
        waiting=sum(left.values()),
        position=sum(positions.values()),
        partitions=left,
    )


def wait_until_read(
    log: Log,
    stages: Sequence[Sequence[Reader]],
    *,
    timeout_s: float,
    clock: Callable[[], float],
    sleep: Callable[[float], None],
    progress: Callable[[Sequence[Lag]], None] = lambda _lags: None,
) -> list[Lag]:
    """Wait until every stage in turn has read what its topics held when the stage before was done.

    The first stage's ends are those of the call. Gives what is missing when the time is out, []
    when all was read.
    """
    deadline_s = clock() + timeout_s
    for readers in stages:
        ends = {reader.topic: log.ends(reader.topic) for reader in readers}
        left = list(readers)
        pause_s = 0.05
        while left:
            lags = [lag(log, reader, ends[reader.topic]) for reader in left]
            left = [reader for reader, found in zip(left, lags, strict=True) if found.waiting]
            missing = [found for found in lags if found.waiting]
            progress(missing)
            if missing and clock() >= deadline_s:
                return missing
            if missing:
                sleep(min(pause_s, max(0.0, deadline_s - clock())))
                pause_s = min(0.5, pause_s * 1.5)
    return []
