"""The variance of weighted rewards that the sample itself may not show.

A sample with few successes has a low estimate and a low variance at once, and an interval from that
variance lies wholly below the truth. Two amounts correct it.

- *Permuted*: the variance if the rewards were dealt to the tasks at random, all attempts at a task
  together. It pools the spread of the rewards over all tasks, so that it does not depend on who of
  them has the large weights. It is exact where a candidate differs in style only.
- *Unseen*: z²/2 further tasks with only the lowest rewards, and as many with only the highest, as
  Agresti and Coull 1998 add them to a proportion, in the same weights as the sample's tasks. They
  count among the tasks in which the weights differ, because rewards of other tasks tell nothing
  about a difference; the geometric mean with all tasks keeps uneven weights from making the
  interval useless (chosen by simulation).
"""

from dataclasses import dataclass

import numpy as np
from scipy import special

from atdp.replay.estimators import Floats, LoggedReturns
from atdp.replay.intervals import TaskCodes


@dataclass(frozen=True, kw_only=True, slots=True)
class RewardVariance:
    """Variances of a weighted mean of rewards, and the number of tasks that carry its weights."""

    permuted: float
    unseen: float
    tasks: float


@dataclass(frozen=True, kw_only=True, slots=True)
class WeightedRewards:
    """Rewards of trajectories, and the weights of two policies, each of shape (n,).

    The weights are >= 0 on any scale; every reward is in [lowest, highest].
    """

    rewards: Floats
    candidate: Floats
    baseline: Floats
    lowest: float
    highest: float

    @property
    def shares(self) -> tuple[Floats, Floats]:
        """The weights of candidate and baseline as shares of their sums."""
        return self.candidate / self.candidate.sum(), self.baseline / self.baseline.sum()

    def variance(self, shares: Floats, codes: TaskCodes, *, alpha: float) -> RewardVariance:
        """Return the variances of the sum of shares times rewards, shares of shape (n,).

        The shares may be differences of shares. `alpha` is that of the interval.
        """
        by_task = np.bincount(codes, weights=shares)
        squares, rows = float((by_task**2).sum()), float((shares**2).sum())
        tasks = by_task.size
        carrying = squares**2 / float((by_task**4).sum()) if squares > 0.0 else float(tasks)
        mean = float(self.rewards @ (self.shares[0] + self.shares[1])) / 2.0
        errors = self.rewards - mean
        permuted = rows * float((errors**2).mean())
        permuted += max(squares - rows, -rows) * _covariance_within(errors, codes)
        z = float(special.ndtri(1.0 - alpha))
        extremes = (self.highest - mean) ** 2 + (mean - self.lowest) ** 2
        return RewardVariance(
            permuted=max(0.0, permuted) * tasks / max(tasks - 1, 1),
            unseen=squares * extremes * z**2 / (2.0 * np.sqrt(tasks * carrying)),
            tasks=carrying,
        )


def weighted_rewards(
    candidate: LoggedReturns, baseline: LoggedReturns, *, lowest: float, highest: float
) -> WeightedRewards:
    """Return the returns of the candidate's log with the weights of both policies."""
    return WeightedRewards(
        rewards=candidate.returns,
        candidate=np.exp(candidate.log_weight - candidate.log_weight.max()),
        baseline=np.exp(baseline.log_weight - baseline.log_weight.max()),
        lowest=lowest,
        highest=highest,
    )


def _covariance_within(errors: Floats, codes: TaskCodes) -> float:
    """Return the mean product of the errors of two attempts at one task, at least 0."""
    counts = np.bincount(codes)
    pairs = float((counts * (counts - 1)).sum())
    products = (np.bincount(codes, weights=errors) ** 2).sum() - (errors**2).sum()
    return max(0.0, float(products) / pairs) if pairs > 0.0 else 0.0
