"""The share of a policy's behaviour that the log does not hold, and what it does to the bounds.

Importance weights average 1 over everything that the behaviour policy could do. Where they average
less in a log, the log lacks what the other policy would do in the missing share: mostly things that
it does often and the behaviour policy did almost never. A self-normalised estimator divides by the
sum of the weights, and so assumes that the policy is rewarded there as in the rest. A policy that
has learned makes its new mistakes there. So the bounds take the lowest and the highest reward for
this share, as for trajectories without a valid weight (`atdp.replay.bounded_returns`). Plain
importance sampling needs no correction of a lower bound, since it does not divide.

The share is an estimate itself. A shortage within two standard errors may be chance, and counts as
it is: sampling error is part of the interval already. A larger one is behaviour that the log really
lacks. Then its upper confidence bound counts, because the log tells nothing about what happens
there, so that half of the intervals would be too short otherwise.

The bound at two standard errors was chosen among others by simulation, where it repairs nearly as
much as an upper bound for every shortage, at a fifth of its width. On candidates of the order desk
(`benchmarks/judgement.py`), intervals without the share missed what the candidates later earned, by
up to eight points, for every candidate whose weights averaged below .9.
"""

import math
from dataclasses import replace

import numpy as np
from scipy import special

from atdp.replay.config import ReplayConfig
from atdp.replay.estimators import LoggedReturns, trajectory_weights
from atdp.replay.intervals import Interval, TaskCodes
from atdp.replay.value_estimates import Estimate

SELF_NORMALISED = frozenset({"cwpdis", "wis", "wdr"})
"""Names of the estimators that divide by the sum of the weights."""

_CHANCE = 2.0
"""Standard errors up to which a shortage of the weights may be chance."""


def unseen_share(returns: LoggedReturns, codes: TaskCodes, *, alpha: float) -> float:
    """Return the share, from 0 to 1, that the log may lack of what the policy would do.

    It is how far the weights of whole trajectories average below 1, or its upper bound at level
    1 - alpha, clustered by task, where two standard errors do not explain it. `codes`, shape (n,),
    are the tasks.
    """
    weights = trajectory_weights(returns)
    missing = 1.0 - float(weights.mean())
    if missing <= 0.0:
        return 0.0
    of_tasks = np.bincount(codes, weights=weights - (1.0 - missing))
    tasks = of_tasks.size
    if tasks < 2:
        return missing
    error = math.sqrt(tasks / (tasks - 1) * float((of_tasks**2).sum())) / weights.size
    if missing > _CHANCE * error:
        missing += float(special.stdtrit(tasks - 1, 1.0 - alpha)) * error
    return min(1.0, missing)


def with_unseen_share(
    estimate: Estimate, *, candidate: float, baseline: float, config: ReplayConfig
) -> Estimate:
    """Return an estimate whose bounds allow any reward in the unseen shares of both policies."""
    if estimate.name not in SELF_NORMALISED or candidate == baseline == 0.0:
        return estimate
    of_candidate = _widened(estimate.candidate, candidate, config)
    of_baseline = _widened(estimate.baseline, baseline, config)
    difference, span = estimate.difference, config.reward_max - config.reward_min
    return replace(
        estimate,
        candidate=of_candidate,
        baseline=of_baseline,
        difference=Interval(
            estimate=difference.estimate,
            lower=max(
                min(-span, difference.lower),
                difference.lower
                - (estimate.candidate.lower - of_candidate.lower)
                - (of_baseline.upper - estimate.baseline.upper),
            ),
            upper=min(
                max(span, difference.upper),
                difference.upper
                + (of_candidate.upper - estimate.candidate.upper)
                + (estimate.baseline.lower - of_baseline.lower),
            ),
        ),
    )


def _widened(interval: Interval, share: float, config: ReplayConfig) -> Interval:
    return Interval(
        estimate=interval.estimate,
        lower=interval.lower - share * max(0.0, interval.lower - config.reward_min),
        upper=interval.upper + share * max(0.0, config.reward_max - interval.upper),
    )
