"""Intervals of two policies' values and of their difference, paired and clustered by task.

Attempts at one task resemble each other, so the task is the unit that is left out, and it is left
out of both policies at once. An interval is the estimate ± t √variance.

- The variance is that of the jackknife (each task left out in turn), or a larger one that does not
  depend on the few rewards that the sample happens to hold (`atdp.replay.weighted_rewards`).
- t is Student's, with as many degrees of freedom as tasks carry the estimate.

The method was chosen by simulation (`benchmarks/verdicts.py`; `docs/explanation/replay-verdicts.md`
has the table). Percentile and BCa bootstrap and the studentised bootstrap, over tasks, miss twice
to five times as often as they promise where rewards are rare or weights uneven: a sample with few
successes has a low estimate and, at the same time, a low variance.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from atdp.replay.estimators import Floats, Terms, ratio_of_sums
from atdp.replay.intervals import Interval, TaskCodes, sums_by_task
from atdp.replay.weighted_rewards import RewardVariance, WeightedRewards


@dataclass(frozen=True, kw_only=True, slots=True)
class PairedIntervals:
    """Intervals of the candidate's value, the baseline's value, and candidate minus baseline."""

    candidate: Interval
    baseline: Interval
    difference: Interval


def paired_intervals(
    candidate: Terms,
    baseline: Terms,
    codes: TaskCodes,
    *,
    alpha: float,
    rewards: WeightedRewards | None = None,
    span: float = 0.0,
) -> PairedIntervals:
    """Return the intervals, with `alpha` left out on each side.

    The rows of `candidate` and `baseline` are the same trajectories in the same order, and `codes`
    are their tasks (`atdp.replay.intervals.task_codes`). The numbers of columns may differ.

    With `rewards`, which are those of the rows, the interval also covers rewards that the sample
    does not show, and stays in their range. Without, `span` is the largest difference that one task
    can make; it is used where all tasks agree exactly.
    """
    values = [ratio_of_sums(*terms) for terms in (candidate, baseline)]
    left_out = [_leave_one_out(terms, codes) for terms in (candidate, baseline)]
    if rewards is None:
        variances: list[RewardVariance | None] = [None, None, None]
        ranges = [(-math.inf, math.inf)] * 3
    else:
        of_candidate, of_baseline = rewards.shares
        variances = [
            rewards.variance(shares, codes, alpha=alpha)
            for shares in (of_candidate, of_baseline, of_candidate - of_baseline)
        ]
        span = rewards.highest - rewards.lowest
        ranges = [(rewards.lowest, rewards.highest)] * 2 + [(-span, span)]
    of_one, of_other, of_difference = (
        _interval(estimate, changed, variance, alpha=alpha, span=span, within=within)
        for estimate, changed, variance, within in zip(
            (*values, values[0] - values[1]),
            (*left_out, left_out[0] - left_out[1]),
            variances,
            ranges,
            strict=True,
        )
    )
    return PairedIntervals(candidate=of_one, baseline=of_other, difference=of_difference)


def _leave_one_out(terms: Terms, codes: TaskCodes) -> Floats:
    """Return the estimate without each task in turn, shape (tasks,).

    It is not a number where one task has the whole weight.
    """
    numerator, denominator = (sums_by_task(part, codes) for part in terms)
    with np.errstate(invalid="ignore", divide="ignore"):
        ratios = (numerator.sum(axis=0) - numerator) / (denominator.sum(axis=0) - denominator)
    return np.asarray(ratios.sum(axis=1), dtype=np.float64)


def _interval(
    estimate: float,
    left_out: Floats,
    rewards: RewardVariance | None,
    *,
    alpha: float,
    span: float,
    within: tuple[float, float],
) -> Interval:
    half = _half_width(left_out, rewards, alpha=alpha, span=span)
    return Interval(
        estimate=estimate,
        lower=min(estimate, max(estimate - half, within[0])),
        upper=max(estimate, min(estimate + half, within[1])),
    )


def _half_width(
    left_out: Floats, rewards: RewardVariance | None, *, alpha: float, span: float
) -> float:
    tasks = left_out.size
    if tasks < 2 or not np.isfinite(left_out).all():
        return math.inf
    change = left_out - left_out.mean()
    variance = (tasks - 1) / tasks * float((change**2).sum())
    if rewards is None:
        freedom = _freedom(change)
    else:
        variance = max(variance, rewards.permuted) + rewards.unseen
        freedom = rewards.tasks
    if variance <= (1e-9 * span) ** 2:
        # Of a task that makes a difference, none was drawn: its probability p has
        # (1 - p)^tasks >= alpha.
        return span * (1.0 - math.pow(alpha, 1.0 / tasks))
    freedom = min(max(freedom, 2.0), tasks - 1.0)
    return float(special.stdtrit(freedom, 1.0 - alpha)) * math.sqrt(variance)


def _freedom(change: Floats) -> float:
    """Return Satterthwaite's degrees of freedom of a variance: 2 n / (kurtosis - 1)."""
    squares = float((change**2).sum())
    if squares == 0.0:
        return change.size
    kurtosis = change.size * float((change**4).sum()) / squares**2
    return 2.0 * change.size / max(kurtosis - 1.0, 1e-9)
