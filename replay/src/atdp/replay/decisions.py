"""From scored trajectories to arrays: one column per decision, one row per trajectory.

A decision's log-probability is the sum over its trainable output tokens (loss mask 1): what the
sampler did not choose (forced tokens) has no ratio. The trajectory-level reward belongs to the last
decision.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from atdp.replay.errors import ReplayDataError
from atdp.replay.estimators import Floats, LoggedReturns
from atdp.replay.records import LoggedGeneration, LoggedTrajectory

TokenScores = Sequence[tuple[Floats, ...]]
"""Per trajectory, per generation: log-probability of each output token."""


def trainable(generation: LoggedGeneration) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which output tokens the policy chose, shape (output tokens,)."""
    n = len(generation.output_token_ids or ())
    return (
        np.asarray(generation.loss_mask, dtype=bool)
        if generation.loss_mask
        else np.ones(n, dtype=bool)
    )


def behaviour(generation: LoggedGeneration) -> Floats:
    """Logged log-probability of each output token under the sampler."""
    return np.asarray(generation.output_logprobs, dtype=np.float64)


def logged_returns(trajectories: Sequence[LoggedTrajectory], scores: TokenScores) -> LoggedReturns:
    """Arrays for the estimators, for one policy's scores."""
    n = len(trajectories)
    horizon = max((len(t.generations) for t in trajectories), default=0)
    log_ratio, reward = np.zeros((n, horizon)), np.zeros((n, horizon))
    mask = np.zeros((n, horizon), dtype=bool)
    for i, (trajectory, of_generations) in enumerate(zip(trajectories, scores, strict=True)):
        for t, (generation, policy) in enumerate(
            zip(trajectory.generations, of_generations, strict=True)
        ):
            chosen = trainable(generation)
            log_ratio[i, t] = float((policy - behaviour(generation))[chosen].sum())
            mask[i, t] = True
        if trajectory.reward is None:
            raise ReplayDataError(
                f"trajectory {trajectory.trajectory_id} has no reward; it cannot be weighed"
            )
        reward[i, len(trajectory.generations) - 1] = trajectory.reward
    return LoggedReturns(log_ratio=log_ratio, reward=reward, mask=mask)


def loglik_per_token(trajectories: Sequence[LoggedTrajectory], scores: TokenScores) -> Floats:
    """Mean log-probability per trainable token of each trajectory, shape (n,), in nats."""
    means = [
        np.concatenate(
            [s[trainable(g)] for g, s in zip(t.generations, of_generations, strict=True)]
        ).mean()
        for t, of_generations in zip(trajectories, scores, strict=True)
    ]
    return np.asarray(means, dtype=np.float64)


@dataclass(frozen=True, kw_only=True)
class EngineAgreement:
    """How far an engine is from the log on decisions that the very same weights made; `None` when there are none."""

    tokens: int
    mean_abs_nats: float | None


def agreement(
    trajectories: Sequence[LoggedTrajectory], scores: TokenScores, *, version: str
) -> EngineAgreement:
    """Compare an engine with the log where both claim `version`: it should agree to numerical noise."""
    gaps = [
        np.abs(s - behaviour(g))[trainable(g)]
        for t, of_generations in zip(trajectories, scores, strict=True)
        for g, s in zip(t.generations, of_generations, strict=True)
        if g.weight_version == version
    ]
    if not gaps:
        return EngineAgreement(tokens=0, mean_abs_nats=None)
    together = np.concatenate(gaps)
    return EngineAgreement(tokens=int(together.size), mean_abs_nats=float(together.mean()))
