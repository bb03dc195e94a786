"""Where a run stands in the governed stream.

It is the run's own: what another run wants to see, and what it would decide, is not known here.

A trajectory is identified with the offset of its *first* event in its Kafka partition: unlike the
last offset it never moves when rewards or feedback arrive later. Per partition a *mark* says that
every trajectory starting at or before it has been decided (trained, or set aside with a reason);
trajectories decided out of order, above the mark, are listed one by one. So the position stays
small, can be compared, and says exactly which trajectories a run has used up, whatever the tables'
snapshots (which expire) look like when it resumes.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from atdp.trainer.trajectory import Trajectory, TrajectoryKey

Start = tuple[int, int]
"""(partition, offset of the first event)."""


@dataclass(frozen=True, kw_only=True)
class Position:
    """A value; advancing gives a new one."""

    marks: Mapping[int, int] = field(default_factory=dict)
    """Per partition: everything that starts at or before this offset is decided."""
    decided: Mapping[TrajectoryKey, Start] = field(default_factory=dict)
    """Decided trajectories that start above their partition's mark."""

    def is_decided(self, trajectory: Trajectory) -> bool:
        """Whether the run is done with it."""
        below = trajectory.first_offset <= self.marks.get(trajectory.partition, -1)
        return below or trajectory.key in self.decided

    def advance(self, decided: Iterable[Trajectory], undecided: Collection[Start]) -> "Position":
        """Count `decided` as used up, and raise the marks as far as they go.

        `undecided` are the starts of all trajectories that may still be decided. A mark rises to
        the last decided start before the first undecided one: a trajectory that begins later can
        only start above it.
        """
        held = dict(self.decided) | {t.key: (t.partition, t.first_offset) for t in decided}
        limit: dict[int, int] = {}
        for partition, offset in undecided:
            limit[partition] = min(offset, limit.get(partition, offset))
        marks = dict(self.marks)
        for partition, offset in held.values():
            if offset < limit.get(partition, offset + 1):
                marks[partition] = max(offset, marks.get(partition, -1))
        above = {key: start for key, start in held.items() if start[1] > marks.get(start[0], -1)}
        return Position(marks=marks, decided=above)

    def to_json(self) -> dict[str, Any]:
        """JSON form."""
        return {
            "marks": {str(partition): offset for partition, offset in sorted(self.marks.items())},
            "decided": [[*key, *start] for key, start in sorted(self.decided.items())],
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Position":
        """Inverse of `to_json`."""
        return cls(
            marks={int(partition): int(offset) for partition, offset in value["marks"].items()},
            decided={
                TrajectoryKey(tenant, trajectory, attempt): (partition, offset)
                for tenant, trajectory, attempt, partition, offset in value["decided"]
            },
        )
