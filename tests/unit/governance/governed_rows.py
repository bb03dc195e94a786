"""The rows that readers have of the governed topic, and what they may see of them.

A later record of an event replaces the earlier one when governance says so. A reader looks at a
trajectory whenever it may be used.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from atdp.schemas import REGOVERNED, decode_record, header

Record: TypeAlias = tuple[bytes, Sequence[tuple[str, bytes]] | None]
"""The value and the headers of a record of the governed topic."""
Canaries: TypeAlias = Callable[[str, int | None], Sequence[str]]
"""Returns the values, in lower case, that are known of a trajectory at a version; None: all."""


@dataclass(slots=True)
class Row:
    """The newest form of an event, at the place of the first one."""

    place: int
    value: bytes
    learned: int
    settled: int
    regoverned: bool = False


def may_be_used(rows: Iterable[Row]) -> bool:
    """Return what `settled` of the lake's view `trajectories` says."""
    rows = list(rows)
    learned = max(row.learned for row in rows)
    settled = max(
        row.learned if row.settled < 0 and not row.regoverned else row.settled for row in rows
    )
    beginnings = [row.place for row in rows if row.settled < 0]
    knowing = [row.place for row in rows if row.settled < 0 or row.learned]
    return not learned or (settled >= learned and beginnings in ([], [min(knowing)]))


def follow(records: Iterable[Record]) -> Iterator[tuple[str, dict[str, Row]]]:
    """Yield a trajectory and its rows after each record. A copy of an event changes nothing."""
    trajectories: dict[str, dict[str, Row]] = defaultdict(dict)
    for place, (value, headers) in enumerate(records):
        record = decode_record(value)[1]
        stamp, rows = record["governance"], trajectories[record["trajectory_id"]]
        row = Row(place, value, stamp["learned_version"], stamp["settled_version"])
        if header(headers, REGOVERNED) is not None:
            row.place, row.regoverned = rows[record["event_id"]].place, True
            rows[record["event_id"]] = row
        rows.setdefault(record["event_id"], row)
        yield record["trajectory_id"], rows


def leaks(value: bytes, known: Iterable[str]) -> int:
    """Return how many of the values an event shows."""
    lowered = value.lower().replace(b"_", b" ")
    return sum(each.encode() in lowered for each in known)


def leaks_to_readers(records: Iterable[Record], canaries: Canaries) -> tuple[int, int]:
    """Return how many leaks readers could see, and how many are left in the end."""
    seen, every = 0, {}
    for name, rows in follow(records):
        every[name] = rows
        version = max(row.learned for row in rows.values())
        if version and may_be_used(rows.values()):
            seen += sum(leaks(row.value, canaries(name, version)) for row in rows.values())
    left = sum(
        leaks(row.value, canaries(name, None))
        for name, rows in every.items()
        for row in rows.values()
    )
    return seen, left


def settled(records: Iterable[Record]) -> int:
    """Return how many trajectories taught something and may be used in the end."""
    rows = dict(follow(records)).values()
    return sum(
        any(row.learned for row in each.values()) and may_be_used(each.values()) for each in rows
    )


def written(records: Iterable[Record]) -> Counter[tuple[str, bytes | None]]:
    """Return how often each form of each event was written."""
    return Counter(
        (decode_record(value)[1]["event_id"], header(headers, REGOVERNED))
        for value, headers in records
    )
