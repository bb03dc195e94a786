"""Intervals of two policies' values and of their difference, paired and clustered by task.

Both policies are estimated from the same trajectories, and attempts at one task resemble each
other. The unit of resampling is therefore the task, and both policies are resampled together.
"""

from dataclasses import dataclass

from atdp.replay.estimators import Terms
from atdp.replay.intervals import (
    Interval,
    TaskCodes,
    bootstrap_ratio,
    percentile_interval,
    resampled_counts,
)


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
    resamples: int,
    seed: int,
) -> PairedIntervals:
    """Return the intervals, with `alpha` left out on each side.

    The rows of `candidate` and `baseline` are the same trajectories in the same order, and `codes`
    are their tasks (`atdp.replay.intervals.task_codes`). The numbers of columns may differ.
    """
    counts = resampled_counts(int(codes.max()) + 1, resamples=resamples, seed=seed)
    of_candidate, candidate_draws = bootstrap_ratio(candidate, codes, counts)
    of_baseline, baseline_draws = bootstrap_ratio(baseline, codes, counts)
    return PairedIntervals(
        candidate=percentile_interval(of_candidate, candidate_draws, alpha=alpha),
        baseline=percentile_interval(of_baseline, baseline_draws, alpha=alpha),
        difference=percentile_interval(
            of_candidate - of_baseline, candidate_draws - baseline_draws, alpha=alpha
        ),
    )
