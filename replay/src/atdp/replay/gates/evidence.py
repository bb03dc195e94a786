"""The evidence about one metric of one tenant: estimate, bounds, p-values, and what is missing."""

from dataclasses import dataclass

from atdp.replay.gates.flips import FlipTable
from atdp.replay.gates.gate_settings import Direction, GateSettings, MetricGate
from atdp.replay.gates.measured_runs import MeasuredArm, TenantRuns
from atdp.replay.gates.pass_k import PassKPoint
from atdp.replay.verdict import Reason


@dataclass(frozen=True, kw_only=True, slots=True)
class MetricEvidence:
    """The numbers of one metric of one tenant.

    `estimate` is the difference candidate - baseline (`mean`, `pass_k`), the ratio candidate
    / baseline (`ratio`), or the candidate's rate of violating tasks (`invariant`), between
    one-sided bounds. None: it cannot be computed.
    """

    metric: str
    kind: str
    critical: bool
    threshold: float
    """The estimate must be shown to be on the better side of it."""
    better: Direction
    """The better direction of the estimate."""
    baseline: float | None = None
    candidate: float | None = None
    estimate: float | None = None
    lower: float | None = None
    upper: float | None = None
    p_pass: float = 1.0
    """p-value of the hypothesis that the candidate is not good enough."""
    p_fail: float = 1.0
    """p-value of the hypothesis that the candidate does no harm."""
    detectable: float | None = None
    """Distance of the true value from the threshold that such data show with probability 0.8; for
    an invariant the rate that the data would rule out without a violation."""
    tasks: int = 0
    """Tasks that both have done; for an invariant the candidate's."""
    missing_candidate: int = 0
    missing_baseline: int = 0
    """Trajectories without the value, with those that governance keeps back."""
    shortages: tuple[Reason, ...] = ()
    """Reasons why nothing can be concluded."""
    violations: tuple[str, ...] = ()
    """Trajectories of the candidate that violate the invariant."""
    sign_p: float | None = None
    """Two-sided exact p-value that tasks get better as often as worse."""
    baseline_curve: tuple[PassKPoint, ...] = ()
    candidate_curve: tuple[PassKPoint, ...] = ()
    flips: FlipTable | None = None


def missing_runs(arm: MeasuredArm, gate: MetricGate) -> int:
    """Return the number of selected trajectories without the metric's value."""
    return arm.selected - sum(run.values[gate.name] is not None for run in arm.runs)


def coverage_shortage(
    name: str, missing: int, arm: MeasuredArm, settings: GateSettings
) -> list[Reason]:
    """Return the reason why too few of the trajectories of an arm can be judged, if it is so."""
    if not arm.selected:
        return [Reason(code="no_runs", text=f"the {name} has no trajectory")]
    share = 1 - missing / arm.selected
    if share >= settings.min_coverage:
        return []
    text = (
        f"{arm.selected - missing} of {arm.selected} trajectories of the {name} are measured "
        f"({share:.0%}, at least {settings.min_coverage:.0%} are needed)"
    )
    return [Reason(code="values_missing", text=text)]


def task_shortage(tasks: int, runs: TenantRuns, settings: GateSettings) -> list[Reason]:
    """Return the reasons why too few tasks can be compared."""
    shortages = []
    if tasks < settings.min_tasks:
        text = f"{tasks} tasks can be compared, at least {settings.min_tasks} are needed"
        shortages.append(Reason(code="few_tasks", text=text))
    every = runs.candidate.by_task().keys() | runs.baseline.by_task().keys()
    if every and tasks / len(every) < settings.min_coverage:
        text = (
            f"{tasks} of {len(every)} tasks can be compared "
            f"({tasks / len(every):.0%}, at least {settings.min_coverage:.0%} are needed)"
        )
        shortages.append(Reason(code="tasks_differ", text=text))
    return shortages
