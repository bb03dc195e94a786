"""The share of a policy's behaviour that the log does not hold, and what it does to the bounds.

Importance weights average 1 over everything that the behaviour policy could do. Where they average
less in a log, the log lacks what the other policy would do in the missing share: mostly things that
it does often and the behaviour policy did almost never. A self-normalised estimator divides by the
sum of the weights, and so assumes that the policy is rewarded there as in the rest. A policy that
has learned makes its new mistakes there. So the bounds take the lowest and the highest reward for
this share, as for trajectories without a valid weight (`atdp.replay.bounded_returns`). Plain
importance sampling needs no correction of a lower bound, since it does not divide.

The share is an estimate itself. Measured on candidates of the order desk
(`benchmarks/judgement.py`), intervals without it missed what the candidates later earned, by up to
eight points, for every candidate whose weights averaged below .9.
"""

from dataclasses import replace

from atdp.replay.config import ReplayConfig
from atdp.replay.estimators import LoggedReturns, trajectory_weights
from atdp.replay.intervals import Interval
from atdp.replay.value_estimates import Estimate

SELF_NORMALISED = frozenset({"cwpdis", "wis", "wdr"})
"""Names of the estimators that divide by the sum of the weights."""


def unseen_share(returns: LoggedReturns) -> float:
    """Return how far the weights of whole trajectories average below 1; 0 when they do not."""
    return max(0.0, 1.0 - float(trajectory_weights(returns).mean()))


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
