"""Comparisons of candidate and baseline on the same tasks: means, pass^k and ratios.

Differences are turned so that more is better. What is missing (values, attempts, and tasks that
only one of the two has done) counts at the candidate's disadvantage for PASS and at its advantage
for FAIL, so that it can show neither.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from atdp.replay.gates.evidence import (
    MetricEvidence,
    coverage_shortage,
    missing_runs,
    task_shortage,
)
from atdp.replay.gates.flips import find_flips
from atdp.replay.gates.gate_settings import (
    Direction,
    GateSettings,
    MeanGate,
    PairedGate,
    PassKGate,
    RatioGate,
)
from atdp.replay.gates.measured_runs import MeasuredArm, MeasuredRun, TenantRuns
from atdp.replay.gates.paired_tests import (
    Floats,
    detectable_difference,
    lower_bound,
    p_above,
    sign_test,
)
from atdp.replay.gates.pass_k import PassKPoint, pass_k, pass_k_curve
from atdp.replay.gates.ratio_bounds import ratio_contrast, ratio_lower_bound, ratio_upper_bound
from atdp.replay.gates.task_pairs import TaskValue, bounded_pairs, mean_of, task_pairs


def compare_means(gate: MeanGate, runs: TenantRuns, settings: GateSettings) -> MetricEvidence:
    """Return the evidence about the mean of a value, with the flips."""

    def solved(run: MeasuredRun) -> bool | None:
        value = run.values[gate.name]
        if value is None:
            return None
        if gate.direction == "higher":
            return value >= gate.success_from
        return value <= gate.success_from

    scale = _Scale(gate.direction, *gate.range)
    evidence = _compare(
        gate, runs, settings, scale, _Measure(of_task=mean_of, worst=scale.worst, best=scale.best)
    )
    pairs = task_pairs(runs, gate.name, mean_of)
    return replace(
        evidence,
        flips=find_flips(runs, solved),
        baseline=mean_of(pairs[:, 1]) if len(pairs) else None,
        candidate=mean_of(pairs[:, 0]) if len(pairs) else None,
    )


def compare_pass_k(gate: PassKGate, runs: TenantRuns, settings: GateSettings) -> MetricEvidence:
    """Return the evidence about pass^k, with the curves up to it."""

    def value_of(attempts: Sequence[float]) -> float | None:
        successes = sum(value >= gate.success_from for value in attempts)
        enough = len(attempts) >= gate.k
        return float(pass_k(successes, len(attempts), gate.k)) if enough else None

    attempts = _Measure(of_task=value_of, worst=-math.inf, best=math.inf, attempts=gate.k)
    evidence = _compare(gate, runs, settings, _Scale("higher", 0.0, 1.0), attempts)
    curves = [_curve(gate, arm, settings) for arm in (runs.baseline, runs.candidate)]
    reached = [{point.k: point.value for point in curve}.get(gate.k) for curve in curves]
    return replace(
        evidence,
        baseline_curve=curves[0],
        candidate_curve=curves[1],
        baseline=reached[0],
        candidate=reached[1],
    )


def compare_totals(gate: RatioGate, runs: TenantRuns, settings: GateSettings) -> MetricEvidence:
    """Return the evidence about the ratio of totals."""
    pairs = task_pairs(runs, gate.name, mean_of)
    sign = 1.0 if gate.direction == "higher" else -1.0
    superior = gate.hypothesis == "superiority"
    threshold = 1 + sign * (gate.margin if superior else -gate.margin)
    evidence = _evidence(gate, runs, settings, threshold, gate.direction, len(pairs))
    if not len(pairs) or pairs[:, 1].sum() <= 0:
        return evidence
    contrast = sign * ratio_contrast(pairs, threshold)
    harm = -sign * ratio_contrast(pairs, 1.0 if superior else threshold)
    alpha, baseline = settings.spent_alpha, float(pairs[:, 1].mean())
    return replace(
        evidence,
        baseline=baseline,
        candidate=float(pairs[:, 0].mean()),
        estimate=float(pairs[:, 0].mean()) / baseline,
        lower=ratio_lower_bound(pairs, alpha),
        upper=ratio_upper_bound(pairs, alpha),
        p_pass=p_above(contrast, 0.0),
        p_fail=p_above(harm, 0.0),
        detectable=detectable_difference(contrast, alpha) / baseline,
    )


@dataclass(frozen=True, slots=True)
class _Scale:
    """The range of a value, and its better direction."""

    better: Direction
    low: float
    high: float

    @property
    def sign(self) -> float:
        return 1.0 if self.better == "higher" else -1.0

    @property
    def reach(self) -> float:
        return self.high - self.low

    @property
    def worst(self) -> float:
        return self.low if self.better == "higher" else self.high

    @property
    def best(self) -> float:
        return self.high if self.better == "higher" else self.low


@dataclass(frozen=True, kw_only=True, slots=True)
class _Measure:
    """The computation of a task's value, and the values that a missing attempt counts as."""

    of_task: TaskValue
    worst: float
    best: float
    attempts: int = 1
    """Number of attempts at a task that its value is computed from."""


def _compare(
    gate: MeanGate | PassKGate,
    runs: TenantRuns,
    settings: GateSettings,
    scale: _Scale,
    measure: _Measure,
) -> MetricEvidence:
    def differences(pairs: Floats) -> Floats:
        return scale.sign * (pairs[:, 0] - pairs[:, 1])

    def bounded(candidate: float, baseline: float) -> Floats:
        return differences(
            bounded_pairs(
                runs,
                gate.name,
                measure.of_task,
                instead=(candidate, baseline),
                attempts=measure.attempts,
            )
        )

    observed = differences(task_pairs(runs, gate.name, measure.of_task))
    doubtful, hopeful, tasks = observed, observed, len(observed)
    if gate.missing == "worst_case":
        doubtful = bounded(measure.worst, measure.best)
        hopeful = bounded(measure.best, measure.worst)
        both = (measure.worst, measure.best)
        tasks = len(task_pairs(runs, gate.name, measure.of_task, instead=both))
    superior = gate.hypothesis == "superiority"
    threshold = gate.margin if superior else -gate.margin
    alpha, reach = settings.spent_alpha, scale.reach
    bounds = (
        lower_bound(doubtful, alpha, reach=reach),
        -lower_bound(-hopeful, alpha, reach=reach),
    )
    if scale.sign < 0:
        bounds = (-bounds[1], -bounds[0])
    evidence = _evidence(gate, runs, settings, scale.sign * threshold, scale.better, tasks)
    return replace(
        evidence,
        estimate=scale.sign * mean_of(observed) if len(observed) else None,
        lower=bounds[0],
        upper=bounds[1],
        p_pass=p_above(doubtful, threshold, reach=reach),
        p_fail=p_above(-hopeful, 0.0 if superior else gate.margin, reach=reach),
        detectable=detectable_difference(doubtful, alpha, reach=reach),
        sign_p=sign_test(observed),
    )


def _evidence(
    gate: PairedGate,
    runs: TenantRuns,
    settings: GateSettings,
    threshold: float,
    better: Direction,
    tasks: int,
) -> MetricEvidence:
    """Return evidence without numbers: the metric, the threshold and all shortages."""
    missing = {
        "candidate": missing_runs(runs.candidate, gate),
        "baseline": missing_runs(runs.baseline, gate),
    }
    shortages = [
        *coverage_shortage("candidate", missing["candidate"], runs.candidate, settings),
        *coverage_shortage("baseline", missing["baseline"], runs.baseline, settings),
        *task_shortage(tasks, runs, settings),
    ]
    return MetricEvidence(
        metric=gate.name,
        kind=gate.kind,
        critical=gate.critical,
        threshold=threshold,
        better=better,
        tasks=tasks,
        missing_candidate=missing["candidate"],
        missing_baseline=missing["baseline"],
        shortages=tuple(shortages),
    )


def _curve(gate: PassKGate, arm: MeasuredArm, settings: GateSettings) -> tuple[PassKPoint, ...]:
    counts = []
    for runs in arm.by_task().values():
        values = [value for run in runs if (value := run.values[gate.name]) is not None]
        counts.append((sum(value >= gate.success_from for value in values), len(values)))
    return pass_k_curve(
        counts,
        gate.k,
        alpha=settings.spent_alpha,
        resamples=settings.resamples,
        seed=settings.seed,
    )
