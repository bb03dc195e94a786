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

A trajectory that ends early has its reward before later decisions, at which the log may lack much.
Estimates per decision divide this reward by the weights at its own decision, so they credit none of
it to what is missing later. The bounds replace only what is credited to the share. With the whole
estimate times the share, 42 of 100 upper bounds were below the value of a candidate that corrects a
late mistake, where half of the trajectories end early with success
(`benchmarks/unseen_actions.py`).

On candidates of the order desk
(`benchmarks/judgement.py`), intervals without the share missed what the candidates later earned, by
up to eight points, for every candidate whose weights averaged below .9.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from atdp.replay.config import SELF_NORMALISED, ReplayConfig
from atdp.replay.estimators import Floats, LoggedReturns, cwpdis_terms, decision_weights
from atdp.replay.intervals import Interval, TaskCodes
from atdp.replay.value_estimates import Estimate


@dataclass(frozen=True, kw_only=True, slots=True)
class UnseenShare:
    """The share of a policy's behaviour that a log may lack, and the reward credited to it."""

    share: float
    """The share of whole trajectories, from 0 to 1."""
    credited: float
    """The reward that a per-decision estimate credits to the share, in units of reward."""

    def credited_by(self, estimator: str, value: float) -> float:
        """Return the part of a self-normalised estimate of `value` that is credited to the share.

        `wis` divides all rewards by the weights of whole trajectories.
        """
        return self.share * value if estimator == "wis" else self.credited


def unseen_share(returns: LoggedReturns, codes: TaskCodes, *, alpha: float) -> UnseenShare:
    """Return the share that the log may lack of what the policy would do.

    It is how far the weights of whole trajectories average below 1, with the upper bound at level
    1 - alpha, clustered by task, but at most twice as far. `codes`, shape (n,), are the tasks. The
    share at an earlier decision is at most that at the end.
    """
    at_decision = np.array(
        [_lacking(weights, codes, alpha=alpha) for weights in decision_weights(returns).T]
    )
    numerator, denominator = cwpdis_terms(returns)
    rewards = numerator.sum(axis=0) / denominator.sum(axis=0)
    share = float(at_decision[-1])
    return UnseenShare(share=share, credited=float(rewards @ np.minimum(at_decision, share)))


def _lacking(weights: Floats, codes: TaskCodes, *, alpha: float) -> float:
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
    estimate: Estimate, *, candidate: UnseenShare, baseline: UnseenShare, config: ReplayConfig
) -> Estimate:
    """Return an estimate whose bounds allow any reward in the unseen shares of both policies.

    A bound replaces what the estimate credits to a share by the lowest or the highest reward. It
    takes this from the estimate, since a bound of the value would count its own uncertainty in its
    favour.
    """
    if estimate.name not in SELF_NORMALISED or candidate.share == baseline.share == 0.0:
        return estimate
    lowest, highest = config.reward_min, config.reward_max
    falls, rises = [], []
    for unseen, value in ((candidate, estimate.candidate), (baseline, estimate.baseline)):
        credited = unseen.credited_by(estimate.name, value.estimate)
        falls.append(max(0.0, credited - unseen.share * lowest))
        rises.append(max(0.0, unseen.share * highest - credited))
    span = highest - lowest
    return replace(
        estimate,
        candidate=_widened(estimate.candidate, falls[0], rises[0], within=(lowest, highest)),
        baseline=_widened(estimate.baseline, falls[1], rises[1], within=(lowest, highest)),
        difference=_widened(
            estimate.difference, falls[0] + rises[1], rises[0] + falls[1], within=(-span, span)
        ),
    )


def _widened(
    interval: Interval, fall: float, rise: float, *, within: tuple[float, float]
) -> Interval:
    """Return the interval with lower and higher bounds, where they are within the range."""
    return Interval(
        estimate=interval.estimate,
        lower=max(min(within[0], interval.lower), interval.lower - fall),
        upper=min(max(within[1], interval.upper), interval.upper + rise),
    )
