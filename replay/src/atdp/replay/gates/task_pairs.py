"""The values of the tasks that candidate and baseline have both done, missing ones replaced."""

from collections.abc import Callable, Sequence

import numpy as np

from atdp.replay.gates.measured_runs import MeasuredArm, TenantRuns
from atdp.replay.gates.paired_tests import Floats

TaskValue = Callable[[Sequence[float]], float | None]
"""The value of a task from those of its attempts; None: there are too few."""


def mean_of(values: Sequence[float] | Floats) -> float:
    """Return the mean of some values."""
    return float(np.mean(values))


def task_pairs(
    runs: TenantRuns,
    metric: str,
    value_of: TaskValue,
    *,
    instead: tuple[float | None, float | None] = (None, None),
) -> Floats:
    """Return the rows (candidate, baseline) of the tasks that both have done, shape (tasks, 2).

    `instead` holds the values that missing ones of candidate and baseline count as; None: they are
    left out, and a task without any value too.
    """
    candidate = _task_values(runs.candidate, metric, value_of, instead[0])
    baseline = _task_values(runs.baseline, metric, value_of, instead[1])
    tasks = sorted(candidate.keys() & baseline.keys())
    return np.array([(candidate[task], baseline[task]) for task in tasks]).reshape(-1, 2)


def bounded_pairs(
    runs: TenantRuns,
    metric: str,
    value_of: TaskValue,
    *,
    instead: tuple[float, float],
    attempts: int,
) -> Floats:
    """Return the rows (candidate, baseline) of the tasks that either has done, shape (tasks, 2).

    Everything that is missing counts as `instead` of its arm: values, attempts up to `attempts` at
    a task, and tasks that only the other one has done. So a candidate that crashes at a task and
    leaves no record of it gains nothing by that.
    """
    arms = [arm.by_task() for arm in (runs.candidate, runs.baseline)]
    rows = []
    for task in sorted(arms[0].keys() | arms[1].keys()):
        row = []
        for by_task, missing in zip(arms, instead, strict=True):
            values = [run.values[metric] for run in by_task.get(task, ())]
            values += [None] * (attempts - len(values))
            row.append(value_of([missing if value is None else value for value in values]))
        rows.append(row)
    return np.array(rows, dtype=np.float64).reshape(-1, 2)


def _task_values(
    arm: MeasuredArm, metric: str, value_of: TaskValue, instead: float | None
) -> dict[str, float]:
    values = {}
    for task, runs in arm.by_task().items():
        attempts = [instead if (v := run.values[metric]) is None else v for run in runs]
        known = [value for value in attempts if value is not None]
        value = value_of(known) if known else None
        if value is not None:
            values[task] = value
    return values
