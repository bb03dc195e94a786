"""Measured runs: trajectories with the values of the metrics, and those of a tenant by task."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

RunKey = tuple[str, int]
"""Trajectory and attempt."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MeasuredRun:
    """One trajectory as the gates see it."""

    trajectory_id: str
    attempt: int
    task_id: str | None
    values: Mapping[str, float | None]
    """Metric → value; None: it was not measured."""
    violations: frozenset[str] = frozenset()
    """Names of the invariants that it violates."""
    whole: bool = True
    """False when a part of its record is missing, so that it cannot show that nothing happened."""

    @property
    def key(self) -> RunKey:
        """Trajectory and attempt."""
        return (self.trajectory_id, self.attempt)


@dataclass(frozen=True, kw_only=True, slots=True)
class MeasuredArm:
    """The runs of candidate or baseline of one tenant, in the order of their names."""

    runs: Sequence[MeasuredRun] = ()
    refused: Mapping[str, int] = field(default_factory=dict)
    """Reason → trajectories that governance keeps back."""

    @property
    def selected(self) -> int:
        """Number of trajectories that the selection names, with those kept back."""
        return len(self.runs) + sum(self.refused.values())

    def by_task(self) -> dict[str, list[MeasuredRun]]:
        """Return the runs of each task, in order of trajectory and attempt."""
        tasks: dict[str, list[MeasuredRun]] = defaultdict(list)
        for run in sorted(self.runs, key=lambda run: run.key):
            if run.task_id is not None:
                tasks[run.task_id].append(run)
        return dict(tasks)


@dataclass(frozen=True, kw_only=True, slots=True)
class TenantRuns:
    """The runs of candidate and baseline of one tenant."""

    tenant: str
    candidate: MeasuredArm
    baseline: MeasuredArm
