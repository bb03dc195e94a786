"""The states of all trajectories of the assigned partitions.

A state changes within a transaction and is kept only when the transaction commits. Before the first
record of a partition is governed, the partition's states are read from the topic of learned values,
which holds the newest record of each. They stay in memory in their encoded form, about 2.5 kB for a
trajectory of 50 events and 50 values, until the trajectory has had no event for the retention time.
What is learned for a whole tenant stays.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from atdp.governance.learned.trajectory_state import (
    EMPTY_STATE,
    TrajectoryState,
    decode_state,
    encode_state,
)

_DECODED_SIZE: Final = 200_000
"""Values and events, about 100 MB, of the states that are kept in decoded form, for the
trajectories that are active now."""
_EXPIRED_AT_ONCE: Final = 200
"""States of one partition that one transaction deletes at most."""
_OF_TENANT: Final = b"/"
"""The end of the record key of what is learned for a whole tenant."""


@dataclass(frozen=True, slots=True)
class StateKey:
    """A trajectory, by the keyed digest of its id; an empty digest stands for the whole tenant."""

    partition: int
    tenant: str
    trajectory: str

    @property
    def of_tenant(self) -> "StateKey":
        """The key of what is learned for the whole tenant."""
        return replace(self, trajectory="")

    @property
    def record_key(self) -> bytes:
        """The key of its record in the topic."""
        return f"{self.tenant}/{self.trajectory}".encode()

    @property
    def place(self) -> tuple[int, bytes]:
        """The partition and the key of its record."""
        return self.partition, self.record_key


@dataclass(frozen=True, slots=True)
class StoredState:
    """A record of the topic. An empty value deletes the state."""

    key: bytes
    value: bytes
    written_at: datetime


ReadStates = Callable[[int], Iterable[StoredState]]
"""Returns the records of a partition of the topic, in order."""


class LearnedStore:
    """States by trajectory. Not thread-safe."""

    def __init__(self, read: ReadStates, retention: timedelta) -> None:
        self._read = read
        self._retention = retention
        self._stored: dict[int, OrderedDict[bytes, StoredState]] = {}
        self._decoded: OrderedDict[tuple[int, bytes], TrajectoryState] = OrderedDict()
        self._changed: dict[StateKey, TrajectoryState] = {}
        self._written: list[tuple[int, StoredState]] = []

    def state(self, key: StateKey) -> TrajectoryState:
        """Return the state of a trajectory; an unknown one has the empty state."""
        if (changed := self._changed.get(key)) is not None:
            return changed
        if (decoded := self._decoded.get(key.place)) is not None:
            self._decoded.move_to_end(key.place)
            return decoded
        stored = self._partition(key.partition).get(key.record_key)
        return EMPTY_STATE if stored is None else decode_state(stored.value)

    def put(self, key: StateKey, state: TrajectoryState) -> None:
        """Change a state within the open transaction."""
        self._changed[key] = state

    def records(self, now: datetime) -> Iterator[tuple[int, StoredState]]:
        """Yield what the open transaction has to write: partition and record.

        Besides the changed states these are deletions of expired ones.
        """
        for key, state in self._changed.items():
            value = encode_state(
                state, tenant=key.tenant, trajectory=key.trajectory or None, now=now
            )
            self._written.append((key.partition, StoredState(key.record_key, value, now)))
        changed = {key.place for key in self._changed}
        for partition in {key.partition for key in self._changed}:
            for expired in self._expired(partition, now):
                if (partition, expired) not in changed:
                    self._written.append((partition, StoredState(expired, b"", now)))
        yield from self._written

    def commit(self) -> None:
        """Keep the changes: the transaction has committed."""
        for partition, record in self._written:
            _apply(self._partition(partition), record)
            self._decoded.pop((partition, record.key), None)
        for key, state in self._changed.items():
            self._decoded[key.place] = state
        size = sum(state.size for state in self._decoded.values())
        while size > _DECODED_SIZE and len(self._decoded) > 1:
            size -= self._decoded.popitem(last=False)[1].size
        self.rollback()

    def rollback(self) -> None:
        """Forget the changes: the transaction was given up."""
        self._changed.clear()
        self._written.clear()

    def forget(self, partitions: Iterable[int]) -> None:
        """Forget the states of partitions that are no longer, or newly, assigned."""
        gone = set(partitions)
        for partition in gone:
            self._stored.pop(partition, None)
        for place in [place for place in self._decoded if place[0] in gone]:
            del self._decoded[place]

    def __len__(self) -> int:
        return sum(map(len, self._stored.values()))

    def _partition(self, partition: int) -> OrderedDict[bytes, StoredState]:
        stored = self._stored.get(partition)
        if stored is None:
            stored = OrderedDict()
            for record in self._read(partition):
                _apply(stored, record)
            self._stored[partition] = stored
        return stored

    def _expired(self, partition: int, now: datetime) -> list[bytes]:
        expired: list[bytes] = []
        for key, record in self._partition(partition).items():
            if record.written_at > now - self._retention or len(expired) == _EXPIRED_AT_ONCE:
                break
            if not key.endswith(_OF_TENANT):
                expired.append(key)
        return expired


def _apply(stored: OrderedDict[bytes, StoredState], record: StoredState) -> None:
    """Apply a record of the topic; the states are in the order in which they were written."""
    stored.pop(record.key, None)
    if record.value:
        stored[record.key] = record
