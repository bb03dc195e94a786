"""The measures of replays: coverage by step, agreement by step, outcomes by tool, rewards."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import numpy as np

from atdp.replay.cassette.cassette_settings import CassetteSettings
from atdp.replay.cassette.hermetic_run import ReplayedTrajectory
from atdp.replay.cassette.player import COUNTED, OUTCOMES
from atdp.replay.intervals import Interval, task_codes
from atdp.replay.paired_intervals import paired_intervals

Task = tuple[str, str | None]
"""Tenant and task."""
Ratio = tuple[float, float]
"""A numerator and its denominator."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CoverageStep:
    """The coverage of one step (from 1)."""

    step: int
    reached: int
    """Replays that took the step, all of whose earlier steps were covered."""
    covered: int
    """Those of which this step is an answer of the recorded world too."""
    surviving: float
    """The share of replays that are covered up to this step (Kaplan-Meier: a replay that has ended
    leaves the count)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AgreementStep:
    """The agreement at one step (from 1), of the replays that were shown what was recorded."""

    step: int
    compared: int
    agreed: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """A ratio of candidate and baseline over the tasks that have both, with intervals by task."""

    tasks: int
    candidate: Interval
    baseline: Interval
    difference: Interval


@dataclass(frozen=True, kw_only=True, slots=True)
class RewardSummary:
    """Terminal rewards: of completed replays only, beside those of all recordings."""

    rewarded: int
    """Replays for which the recorded reward holds."""
    mean: float | None
    recorded: int
    """Recordings with a reward."""
    recorded_mean: float | None


def coverage_curve(runs: Sequence[ReplayedTrajectory]) -> tuple[CoverageStep, ...]:
    """Return the coverage of every step that a replay reached."""
    reached: Counter[int] = Counter()
    covered: Counter[int] = Counter()
    for run in runs:
        end = run.first_divergence or len(run.steps) + 1
        covered.update(range(1, end))
        reached.update(range(1, min(end, len(run.steps)) + 1))
    curve, surviving = [], 1.0
    for step in sorted(reached):
        surviving *= covered[step] / reached[step]
        curve.append(
            CoverageStep(
                step=step, reached=reached[step], covered=covered[step], surviving=surviving
            )
        )
    return tuple(curve)


def agreement_curve(agreements: Sequence[Sequence[bool | None]]) -> tuple[AgreementStep, ...]:
    """Return the agreement of every step that was compared; None is no comparison."""
    compared: Counter[int] = Counter()
    agreed: Counter[int] = Counter()
    for agreement in agreements:
        for step, agrees in enumerate(agreement, start=1):
            compared[step] += agrees is not None
            agreed[step] += agrees is True
    return tuple(
        AgreementStep(step=step, compared=compared[step], agreed=agreed[step])
        for step in sorted(compared)
        if compared[step]
    )


def agreement_ratio(agreement: Sequence[bool | None]) -> Ratio:
    """Return the number of steps that agree, and of those that were compared."""
    compared = [agrees for agrees in agreement if agrees is not None]
    return float(sum(compared)), float(len(compared))


def agreements(run: ReplayedTrajectory) -> list[bool | None]:
    """Return the agreement of each step; see `ReplayedStep.agrees`."""
    return [step.agrees for step in run.steps]


def run_ratios(runs: Sequence[ReplayedTrajectory]) -> list[tuple[Task, Ratio]]:
    """Return the task and the agreement of each replay."""
    return [((run.key[0], run.task_id), agreement_ratio(agreements(run))) for run in runs]


def outcomes_by_tool(runs: Sequence[ReplayedTrajectory]) -> dict[str, dict[str, int]]:
    """Return tool → outcome → calls, up to the first divergence of each replay."""
    counts: dict[str, Counter[str]] = {}
    for run in runs:
        for step in run.steps[: run.first_divergence]:
            for tool, outcome in zip(step.tools, step.outcomes, strict=False):
                counts.setdefault(tool, Counter())[outcome] += 1
    return {
        tool: {outcome: counts[tool][outcome] for outcome in OUTCOMES} for tool in sorted(counts)
    }


def first_diverging_tool(run: ReplayedTrajectory) -> str | None:
    """Return the tool of the first call that the recorded world does not answer."""
    if run.first_divergence is None:
        return None
    step = run.steps[run.first_divergence - 1]
    pairs = zip(step.tools, step.outcomes, strict=False)
    return next(tool for tool, outcome in pairs if outcome not in COUNTED)


def summarise_rewards(runs: Sequence[ReplayedTrajectory]) -> RewardSummary:
    """Return the terminal rewards; a reward that does not hold is left out, not 0."""
    rewards = [run.reward for run in runs if run.reward is not None]
    recorded = [run.recorded_reward for run in runs if run.recorded_reward is not None]
    return RewardSummary(
        rewarded=len(rewards),
        mean=fmean(rewards) if rewards else None,
        recorded=len(recorded),
        recorded_mean=fmean(recorded) if recorded else None,
    )


def compare_by_task(
    candidate: Sequence[tuple[Task, Ratio]],
    baseline: Sequence[tuple[Task, Ratio]],
    settings: CassetteSettings,
    *,
    shares: bool = True,
) -> Comparison | None:
    """Compare two ratios of sums over the tasks that both have; None: fewer than two tasks do.

    `shares` says that the ratios are between 0 and 1.
    """
    ours, theirs = _sums_by_task(candidate), _sums_by_task(baseline)
    shared = sorted(
        task for task in ours.keys() & theirs.keys() if ours[task][1] and theirs[task][1]
    )
    if len(shared) < 2:
        return None
    terms = [
        (
            np.array([[sums[task][0]] for task in shared]),
            np.array([[sums[task][1]] for task in shared]),
        )
        for sums in (ours, theirs)
    ]
    intervals = paired_intervals(
        terms[0],
        terms[1],
        task_codes([f"{tenant}\n{task}" for tenant, task in shared]),
        alpha=settings.alpha,
        span=1.0 if shares else 0.0,
    )
    low, high = (0.0, 1.0) if shares else (-math.inf, math.inf)
    return Comparison(
        tasks=len(shared),
        candidate=_within(intervals.candidate, low, high),
        baseline=_within(intervals.baseline, low, high),
        difference=_within(intervals.difference, low - high, high - low),
    )


def _within(interval: Interval, low: float, high: float) -> Interval:
    return replace(interval, lower=max(interval.lower, low), upper=min(interval.upper, high))


def _sums_by_task(values: Sequence[tuple[Task, Ratio]]) -> Mapping[tuple[str, str], Ratio]:
    """Return the sums of each task; what has no task is left out."""
    sums: dict[tuple[str, str], Ratio] = {}
    for (tenant, task), (numerator, denominator) in values:
        if task is not None:
            before = sums.get((tenant, task), (0.0, 0.0))
            sums[tenant, task] = (before[0] + numerator, before[1] + denominator)
    return sums
