"""The trainer's port towards governed trajectories, and an adapter in memory.

A source offers *governed* trajectories only: admitted for purpose `train` and eligible. It counts
the trajectories that the store refuses by reason.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from atdp.trainer.position import Start, StreamPosition
from atdp.trainer.trajectory import TrainingTrajectory, TrajectoryKey

OPEN = "open"
"""Status of a trajectory that has not ended."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Poll:
    """The trajectories that a source offers after a position."""

    trajectories: tuple[TrainingTrajectory, ...]
    """Ended trajectories that the position has not decided."""
    open_starts: tuple[Start, ...] = ()
    """(partition, first offset) of trajectories that a later poll may offer: they have not ended,
    or the source does not select them yet."""
    exhausted: bool = False
    """No later poll offers more (a pinned dataset)."""
    snapshots: Mapping[str, int] = field(default_factory=dict)
    """Snapshot id of every table that was read."""
    refused: Mapping[str, int] = field(default_factory=dict)
    """Number of trajectories that were not read, by reason: governance refused them, or they are
    too old."""
    refused_rewards: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """Rewards of those of them that have one, by reason."""


class TrajectorySource(Protocol):
    """A source of trajectories.

    Reading is repeatable: the same position gives the same ended trajectories again.
    """

    def poll(self, position: StreamPosition) -> Poll:
        """Return all undecided trajectories without waiting.

        Raises:
            SourceError: the store cannot be read.
        """
        ...

    def fetch(self, keys: Sequence[TrajectoryKey]) -> list[TrainingTrajectory]:
        """Return those of the named trajectories that still exist and may still be used."""
        ...

    def withheld(self, keys: Collection[TrajectoryKey]) -> Mapping[TrajectoryKey, str]:
        """Return those of the trajectories, offered before, that may not be used now, with reasons.

        Consent may be withdrawn or end after a trajectory was read, so a run asks before each use.

        Raises:
            SourceError: it cannot be known; then none may be used.
        """
        ...


class MemorySource:
    """A source in memory, for tests and small jobs."""

    def __init__(
        self,
        trajectories: Iterable[TrainingTrajectory],
        *,
        exhausted: bool = True,
        where: Callable[[TrainingTrajectory], bool] = lambda _: True,
    ) -> None:
        """Offer the trajectories that `where` selects.

        `exhausted=False` makes it a stream to which `add` adds.
        """
        self._trajectories = {t.key: t for t in trajectories}
        self._exhausted = exhausted
        self._where = where
        self._withheld: dict[TrajectoryKey, str] = {}

    def withhold(self, keys: Iterable[TrajectoryKey], reason: str) -> None:
        """Let trajectories not be used any more."""
        self._withheld |= dict.fromkeys(keys, reason)

    def add(self, trajectories: Iterable[TrainingTrajectory], *, last: bool = False) -> None:
        """Add trajectories, or replace them by later states; `last` ends the stream."""
        self._trajectories |= {t.key: t for t in trajectories}
        self._exhausted = self._exhausted or last

    def poll(self, position: StreamPosition) -> Poll:
        """See `TrajectorySource`."""
        undecided = [t for t in self._trajectories.values() if not position.is_decided(t)]
        undecided = [t for t in undecided if t.key not in self._withheld]
        offered = {t.key for t in undecided if t.status != OPEN and self._where(t)}
        return Poll(
            trajectories=tuple(t for t in undecided if t.key in offered),
            open_starts=tuple(
                (t.partition, t.first_offset) for t in undecided if t.key not in offered
            ),
            exhausted=self._exhausted,
        )

    def fetch(self, keys: Sequence[TrajectoryKey]) -> list[TrainingTrajectory]:
        """See `TrajectorySource`."""
        known = self._trajectories.keys() - self._withheld
        return [self._trajectories[key] for key in keys if key in known]

    def withheld(self, keys: Collection[TrajectoryKey]) -> Mapping[TrajectoryKey, str]:
        """See `TrajectorySource`."""
        return {key: self._withheld[key] for key in keys if key in self._withheld}
