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

from atdp.replay.config import SELF_NORMALISED, ReplayConfig
from atdp.replay.estimators import LoggedReturns, trajectory_weights
from atdp.replay.intervals import Interval, TaskCodes
from atdp.replay.value_estimates import Estimate


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
    """Return an estimate whose bounds allow any reward in the unseen shares of both policies.

    A value changes by the share of its distance from the lowest or the highest reward. The bounds
    of the difference take the distance from the estimate, since the bounds of the value would
    count its own uncertainty in their favour.
    """
    if estimate.name not in SELF_NORMALISED or candidate == baseline == 0.0:
        return estimate
    difference, span = estimate.difference, config.reward_max - config.reward_min
    fall = {
        "candidate": candidate * _above_lowest(estimate.candidate.estimate, config),
        "baseline": baseline * _above_lowest(estimate.baseline.estimate, config),
    }
    rise = {
        "candidate": candidate * _below_highest(estimate.candidate.estimate, config),
        "baseline": baseline * _below_highest(estimate.baseline.estimate, config),
    }
    return replace(
        estimate,
        candidate=_widened(estimate.candidate, candidate, config),
        baseline=_widened(estimate.baseline, baseline, config),
        difference=Interval(
            estimate=difference.estimate,
            lower=max(
                min(-span, difference.lower),
                difference.lower - fall["candidate"] - rise["baseline"],
            ),
            upper=min(
                max(span, difference.upper),
                difference.upper + rise["candidate"] + fall["baseline"],
            ),
        ),
    )


def _above_lowest(reward: float, config: ReplayConfig) -> float:
    return max(0.0, reward - config.reward_min)


def _below_highest(reward: float, config: ReplayConfig) -> float:
    return max(0.0, config.reward_max - reward)


def _widened(interval: Interval, share: float, config: ReplayConfig) -> Interval:
    return Interval(
        estimate=interval.estimate,
        lower=interval.lower - share * _above_lowest(interval.lower, config),
        upper=interval.upper + share * _below_highest(interval.upper, config),
    )
