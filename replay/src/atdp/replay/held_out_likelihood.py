"""The held-out likelihood: how probable two policies make the trajectories that succeeded.

It is not a value, because style dominates it: a policy may lose likelihood and earn more. But it
needs no overlap of the policies and therefore warns of a broken policy also when the importance
weights carry no information.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from atdp.replay.config import ReplayConfig
from atdp.replay.decision_arrays import TokenScores, loglik_per_token
from atdp.replay.estimators import Floats
from atdp.replay.intervals import Interval, task_codes
from atdp.replay.paired_intervals import paired_intervals
from atdp.replay.records import LoggedTrajectory, task_of


@dataclass(frozen=True, kw_only=True, slots=True)
class Likelihood:
    """Mean log-likelihood (nats per token) of successful trajectories, and the difference."""

    trajectories: int
    candidate: float
    baseline: float
    difference: Interval


def held_out_likelihood(
    scored: Sequence[LoggedTrajectory],
    candidate: TokenScores,
    baseline: TokenScores,
    config: ReplayConfig,
) -> Likelihood | None:
    """Return the likelihood of the successful ones of the scored trajectories; None without any."""
    successful = [
        i
        for i, trajectory in enumerate(scored)
        if trajectory.reward is not None and trajectory.reward >= config.success_threshold
    ]
    if not successful:
        return None
    chosen = [scored[i] for i in successful]
    of_candidate, of_baseline = (
        _mean_terms(loglik_per_token(chosen, [scores[i] for i in successful]))
        for scores in (candidate, baseline)
    )
    paired = paired_intervals(
        of_candidate,
        of_baseline,
        task_codes([task_of(t) for t in chosen]),
        alpha=config.spent_alpha,
    )
    return Likelihood(
        trajectories=len(successful),
        candidate=paired.candidate.estimate,
        baseline=paired.baseline.estimate,
        difference=paired.difference,
    )


def _mean_terms(values: Floats) -> tuple[Floats, Floats]:
    """Return the terms of a mean of values (n,), each of shape (n, 1)."""
    return values[:, None], np.ones((values.size, 1))
