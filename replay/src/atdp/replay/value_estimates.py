"""Estimates of the reward that candidate and baseline would have had, by several estimators.

All of them compare the two policies on the same trajectories. Ratio estimators get approximate
intervals (`atdp.replay.paired_intervals`); plain importance sampling gets bounds that hold at any
sample size.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from atdp.replay import intervals
from atdp.replay.config import SELF_NORMALISED, ReplayConfig
from atdp.replay.estimators import (
    Floats,
    LoggedReturns,
    Terms,
    cwpdis_terms,
    dr_terms,
    pdis_terms,
    trajectory_weights,
    weighted_dr_terms,
    wis_terms,
)
from atdp.replay.intervals import Interval, TaskCodes
from atdp.replay.paired_intervals import paired_intervals
from atdp.replay.weighted_rewards import weighted_rewards

_LowerBound = Callable[[Floats], float]
"""A guaranteed lower bound of the mean of non-negative values, shape (n,)."""

_RATIO_ESTIMATORS: Mapping[str, tuple[str, Callable[[LoggedReturns, Floats], Terms]]] = {
    "cwpdis": ("per-decision weighted IS", lambda logged, _: cwpdis_terms(logged)),
    "wis": ("weighted IS", lambda logged, _: wis_terms(logged)),
    "wdr": ("weighted doubly robust", lambda logged, v: weighted_dr_terms(logged, v, v)),
    "pdis": ("per-decision IS (unbiased)", lambda logged, _: pdis_terms(logged)),
    "dr": ("doubly robust (unbiased)", lambda logged, v: dr_terms(logged, v, v)),
}
"""Titles, and terms for a log and the values of its states, by name."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Estimate:
    """The values that one estimator gives.

    `guaranteed` bounds hold at any sample size, other bounds only with a sufficient ESS.
    """

    name: str
    title: str
    guaranteed: bool
    candidate: Interval
    baseline: Interval
    difference: Interval


def ratio_estimates(
    candidate: LoggedReturns,
    baseline: LoggedReturns,
    *,
    codes: TaskCodes,
    state_values: Floats,
    config: ReplayConfig,
) -> tuple[Estimate, ...]:
    """Return the estimates with approximate intervals, paired and clustered by task."""
    return tuple(
        ratio_estimate(
            name, candidate, baseline, codes=codes, state_values=state_values, config=config
        )
        for name in _RATIO_ESTIMATORS
    )


def ratio_estimate(
    name: str,
    candidate: LoggedReturns,
    baseline: LoggedReturns,
    *,
    codes: TaskCodes,
    state_values: Floats,
    config: ReplayConfig,
) -> Estimate:
    """Return the estimate of one ratio estimator.

    `state_values`, shape (n, T), are those of `atdp.replay.state_values`; zeros turn the doubly
    robust estimators into the per-decision ones.
    """
    title, terms = _RATIO_ESTIMATORS[name]
    if name not in SELF_NORMALISED:
        candidate, baseline = candidate.uncut, baseline.uncut
    paired = paired_intervals(
        terms(candidate, state_values),
        terms(baseline, state_values),
        codes,
        alpha=config.spent_alpha,
        rewards=weighted_rewards(
            candidate, baseline, lowest=config.reward_min, highest=config.reward_max
        ),
    )
    return Estimate(
        name=name,
        title=title,
        guaranteed=False,
        candidate=paired.candidate,
        baseline=paired.baseline,
        difference=paired.difference,
    )


def guaranteed_estimates(
    candidate: LoggedReturns,
    baseline: LoggedReturns,
    *,
    codes: TaskCodes,
    config: ReplayConfig,
) -> tuple[Estimate, ...]:
    """Return the estimates with bounds that hold at any sample size.

    Each policy's bound gets half of the spent alpha, so that the difference has all of it.
    """
    alpha = config.spent_alpha / 2

    def betting(values: Floats) -> float:
        units = intervals.mean_by_task(values, codes)
        return intervals.betting_lower(units, alpha=alpha, seed=config.seed)

    def bernstein(values: Floats) -> float:
        units = intervals.mean_by_task(np.minimum(values, config.weight_clip), codes)
        return intervals.empirical_bernstein_lower(units, upper=config.weight_clip, alpha=alpha)

    estimates = []
    for name, title, lower_bound in (
        ("betting", "IS, betting bound", betting),
        ("bernstein", "clipped IS, empirical Bernstein", bernstein),
    ):
        c = _value(candidate, lower_bound, codes=codes, config=config)
        b = _value(baseline, lower_bound, codes=codes, config=config)
        estimates.append(
            Estimate(
                name=name,
                title=title,
                guaranteed=True,
                candidate=c,
                baseline=b,
                difference=Interval(
                    estimate=c.estimate - b.estimate,
                    lower=c.lower - b.upper,
                    upper=c.upper - b.lower,
                ),
            )
        )
    return tuple(estimates)


def _value(
    logged: LoggedReturns,
    lower_bound: _LowerBound,
    *,
    codes: TaskCodes,
    config: ReplayConfig,
) -> Interval:
    """Return the value of one policy with guaranteed bounds.

    With rewards scaled to [0, 1] and E[w] = 1, the value is at least L(w r) and at most
    1 - L(w (1 - r)), where L is the lower bound of a mean.
    """
    span = config.reward_max - config.reward_min
    scaled = (logged.returns - config.reward_min) / span
    weight = trajectory_weights(logged.uncut)
    low = min(1.0, lower_bound(weight * scaled))
    high = 1.0 - min(1.0, lower_bound(weight * (1.0 - scaled)))
    estimate = float(intervals.mean_by_task(weight * scaled, codes).mean())
    return Interval(
        estimate=config.reward_min + span * estimate,
        lower=config.reward_min + span * low,
        upper=config.reward_min + span * high,
    )
