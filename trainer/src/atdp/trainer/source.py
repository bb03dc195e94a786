"""The trainer's port towards governed trajectories, and the adapter that tests and small jobs use.

A source gives *governed* trajectories only: admitted for purpose `train` and eligible. What the
store refuses, it counts by reason.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from atdp.trainer.position import Position, Start
from atdp.trainer.trajectory import Trajectory, TrajectoryKey

OPEN = "open"
"""Status of a trajectory that has not ended."""


@dataclass(frozen=True, kw_only=True)
class Poll:
    """What a source holds beyond a position."""

    trajectories: tuple[Trajectory, ...]
    """Ended trajectories that the position has not decided."""
    open_starts: tuple[Start, ...] = ()
    """(partition, first offset) of trajectories that a later poll may offer: not ended, or not
    (yet) what the source selects."""
    exhausted: bool = False
    """Nothing more will come (a pinned dataset)."""
    snapshots: Mapping[str, int] = field(default_factory=dict)
    """Snapshot id of every table that was read."""
    refused: Mapping[str, int] = field(default_factory=dict)
    """Trajectories that were kept back unread, by reason: by governance, or because they are too
    old to be of use."""


class TrajectorySource(Protocol):
    """Where trajectories come from.

    Reading is repeatable: a position gives the same ended trajectories again.
    """

    def poll(self, position: Position) -> Poll:
        """All undecided trajectories; does not wait.

        Raises SourceError when the store cannot be read.
        """
        ...

    def fetch(self, keys: Sequence[TrajectoryKey]) -> list[Trajectory]:
        """These trajectories, as far as they (still) exist, to repeat a written plan."""
        ...


class MemorySource:
    """Trajectories in a list."""

    def __init__(
        self,
        trajectories: Iterable[Trajectory],
        *,
        exhausted: bool = True,
        where: Callable[[Trajectory], bool] = lambda _: True,
    ) -> None:
        """`exhausted=False` makes it a stream that `add` feeds; `where` selects, as a source's SQL does."""
        self._trajectories = {t.key: t for t in trajectories}
        self._exhausted = exhausted
        self._where = where

    def add(self, trajectories: Iterable[Trajectory], *, last: bool = False) -> None:
        """More arrived, or the same with what came later; `last` closes the stream."""
        self._trajectories |= {t.key: t for t in trajectories}
        self._exhausted = self._exhausted or last

    def poll(self, position: Position) -> Poll:
        """See `TrajectorySource`."""
        undecided = [t for t in self._trajectories.values() if not position.is_decided(t)]
        offered = {t.key for t in undecided if t.status != OPEN and self._where(t)}
        return Poll(
            trajectories=tuple(t for t in undecided if t.key in offered),
            open_starts=tuple(
                (t.partition, t.first_offset) for t in undecided if t.key not in offered
            ),
            exhausted=self._exhausted,
        )

    def fetch(self, keys: Sequence[TrajectoryKey]) -> list[Trajectory]:
        """See `TrajectorySource`."""
        return [self._trajectories[key] for key in keys if key in self._trajectories]
