"""The share of a policy's behaviour that the log does not hold, and what it does to the bounds.

Importance weights average 1 over everything that the behaviour policy could do. Where they average
less in a log, the log lacks what the other policy would do in the missing share: mostly things that
it does often and the behaviour policy did almost never. A self-normalised estimator divides by the
sum of the weights, and so assumes that the policy is rewarded there as in the rest. A policy that
has learned makes its new mistakes there. So the bounds take the lowest and the highest reward for
this share, as for trajectories without a valid weight (`atdp.replay.bounded_returns`). Plain
importance sampling needs no correction of a lower bound, since it does not divide.

The share is an estimate itself, so its upper confidence bound counts, up to twice the shortage: a
small shortage is mostly the scatter of the weights, which the interval contains already. The rule
was chosen by simulation, beside the shortage itself (false verdicts up to four times as often as
stated where redactions follow the outcome of an action that the candidate prefers), and beside the
bound for every log (intervals up to half as wide again in logs that lack nothing).

On candidates of the order desk
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


def unseen_share(returns: LoggedReturns, codes: TaskCodes, *, alpha: float) -> float:
    """Return the share, from 0 to 1, that the log may lack of what the policy would do.

    It is how far the weights of whole trajectories average below 1, with the upper bound at level
    1 - alpha, clustered by task, but at most twice as far. `codes`, shape (n,), are the tasks.
    """
    weights = trajectory_weights(returns)
    missing = 1.0 - float(weights.mean())
    if missing <= 0.0:
        return 0.0
    of_tasks = np.bincount(codes, weights=weights - (1.0 - missing))
    tasks = of_tasks.size
    if tasks < 2:
        return min(1.0, 2.0 * missing)
    error = math.sqrt(tasks / (tasks - 1) * float((of_tasks**2).sum())) / weights.size
    upper = missing + float(special.stdtrit(tasks - 1, 1.0 - alpha)) * error
    return min(1.0, 2.0 * missing, upper)


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
