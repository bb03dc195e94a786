"""The position of a run in the governed stream.

Every run has a position of its own, since runs select and decide differently.

A trajectory is located by the offset of its *first* event in its Kafka partition: unlike the last
offset, it does not change when rewards or feedback arrive later. Per partition, every trajectory
that starts at or before the *mark* has been decided (trained on, or set aside with a reason);
trajectories that were decided out of order, above the mark, are listed one by one. So the position
stays small, can be compared, and determines exactly which trajectories a run has used up. It does
not depend on the tables' snapshots, which expire.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from atdp.trainer.trajectory import TrainingTrajectory, TrajectoryKey

Start = tuple[int, int]
"""(partition, offset of the first event)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StreamPosition:
    """A position; it is immutable."""

    marks: Mapping[int, int] = field(default_factory=dict)
    """Per partition: every trajectory that starts at or before this offset is decided."""
    decided: Mapping[TrajectoryKey, Start] = field(default_factory=dict)
    """Decided trajectories that start above their partition's mark."""

    def is_decided(self, trajectory: TrainingTrajectory) -> bool:
        """Return True when the run has decided the trajectory."""
        below = trajectory.first_offset <= self.marks.get(trajectory.partition, -1)
        return below or trajectory.key in self.decided

    def advance(
        self, decided: Iterable[TrainingTrajectory], undecided: Collection[Start]
    ) -> "StreamPosition":
        """Return the position after `decided`, with the marks as high as possible.

        `undecided` are the starts of all trajectories that may still be decided. A mark rises to
        the last decided start before the first undecided one, since a trajectory that begins later
        starts above it.
        """
        listed = dict(self.decided) | {t.key: (t.partition, t.first_offset) for t in decided}
        limit: dict[int, int] = {}
        for partition, offset in undecided:
            limit[partition] = min(offset, limit.get(partition, offset))
        marks = dict(self.marks)
        for partition, offset in listed.values():
            if offset < limit.get(partition, offset + 1):
                marks[partition] = max(offset, marks.get(partition, -1))
        above = {key: start for key, start in listed.items() if start[1] > marks.get(start[0], -1)}
        return StreamPosition(marks=marks, decided=above)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "marks": {str(partition): offset for partition, offset in sorted(self.marks.items())},
            "decided": [[*key, *start] for key, start in sorted(self.decided.items())],
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "StreamPosition":
        """Return the position of a JSON form; inverse of `to_json`."""
        return cls(
            marks={int(partition): int(offset) for partition, offset in value["marks"].items()},
            decided={
                TrajectoryKey(tenant, trajectory, attempt): (partition, offset)
                for tenant, trajectory, attempt, partition, offset in value["decided"]
            },
        )
