"""Trajectories that show a name and a user id before they teach them, and what readers may see."""

import itertools
import string
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

from atdp.schemas import REGOVERNED, Event, decode_record, header

from .rig import Rig
from .worker_events import event

EVENTS_EACH = 8


def _word(kind: str, number: int) -> str:
    """Return a word that is in no dictionary, so that only learning it can find it."""
    first, second = divmod(number, 26)
    letters = string.ascii_lowercase
    return f"{kind}{letters[first]}{letters[second]}x"


def canaries(trajectory: str) -> tuple[str, str]:
    """Return the name and the user id of a trajectory, in lower case."""
    number = int(trajectory.rpartition("/")[2])
    return f"{_word('zorv', number)} {_word('quilb', number)}", _word("wexpat", number)


def learning_trajectory(number: int) -> list[Event]:
    """Return one trajectory.

    The name is shown in lower case and then stands under a key. The trajectory ends, and later an
    event teaches the user id, which was shown before the end.
    """
    trajectory = f"learn/{number:04d}"
    name, user = canaries(trajectory)
    texts = [
        f"the order of {name} is late, account {user}",
        "one moment please",
        f'{{"full_name": "{name.title()}", "items": 3}}',
        f"done, {name}",
        f"it is for {name.replace(' ', '_')}",
        "",
        "thanks",
        f'{{"username": "{user}", "stars": 5}}',
    ]
    return [event(trajectory, seq, text) for seq, text in enumerate(texts)]


def learning_trajectories(count: int) -> list[Event]:
    """Return `count` trajectories, interleaved."""
    return list(
        itertools.chain.from_iterable(zip(*map(learning_trajectory, range(count)), strict=True))
    )


def leaks_to_readers(rig: Rig) -> tuple[int, int]:
    """Return how many leaks readers of the governed topic could see, and how many leaks are left.

    A reader follows the topic; a later record of an event id replaces the earlier one, and it looks
    at a trajectory whenever the highest settled version reaches the highest learned version. What
    is left are leaks of the last records, settled or not.
    """
    rows: dict[str, dict[str, Mapping[str, int] | bytes]] = defaultdict(dict)
    stamps: dict[str, dict[str, tuple[int, int]]] = defaultdict(dict)
    seen = 0
    for value in _values(rig):
        record = decode_record(value)[1]
        trajectory, stamp = record["trajectory_id"], record["governance"]
        rows[trajectory][record["event_id"]] = value
        stamps[trajectory][record["event_id"]] = (
            stamp["learned_version"],
            stamp["settled_version"],
        )
        name, user = canaries(trajectory)
        learned, settled = map(max, zip(*stamps[trajectory].values(), strict=True))
        known = [name, user] if learned > _VERSION_OF_NAME else [name]
        if learned and settled >= learned:
            seen += sum(_leaks(each, known) for each in rows[trajectory].values())
    left = sum(
        _leaks(value, canaries(trajectory))
        for trajectory, values in rows.items()
        for value in values.values()
    )
    return seen, left


_VERSION_OF_NAME = 3
"""A full name teaches itself and its two words."""


def _values(rig: Rig) -> Iterator[bytes]:
    return (message.value() for message in rig.read("events_governed"))


def _leaks(value: object, known: object) -> int:
    assert isinstance(value, bytes)
    lowered = value.lower().replace(b"_", b" ")
    return sum(each.encode() in lowered for each in known)  # type: ignore[attr-defined]


def settled_trajectories(rig: Rig) -> int:
    """Return how many trajectories may be used."""
    learned: Counter[str] = Counter()
    settled: Counter[str] = Counter()
    for value in _values(rig):
        record = decode_record(value)[1]
        trajectory, stamp = record["trajectory_id"], record["governance"]
        learned[trajectory] = max(learned[trajectory], stamp["learned_version"])
        settled[trajectory] = max(settled[trajectory], stamp["settled_version"])
    return sum(settled[each] >= learned[each] > 0 for each in learned)


def repeats(rig: Rig) -> int:
    """Return how many records were written more than once for one event and version.

    The first form of an event counts as a version of its own. Audit records must agree.
    """
    written: Counter[tuple[str, bytes | None]] = Counter()
    for message in rig.read("events_governed"):
        record = decode_record(message.value())[1]
        written[record["event_id"], header(message.headers(), REGOVERNED)] += 1
    audits = Counter(audit["audit_id"] for audit in rig.records("audit"))
    assert len(audits) == len(written)
    assert sum(audits.values()) == sum(written.values())
    return sum(written.values()) - len(written)
