"""Arrays from scored trajectories: one row for each trajectory, one column for each decision.

A decision's log-probability is the sum over its trainable output tokens (loss mask 1), because
tokens that the sampler did not choose (forced tokens) have no ratio. The trajectory-level reward
belongs to the last decision.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from atdp.replay.errors import ReplayDataError
from atdp.replay.estimators import Bools, Floats, LoggedReturns
from atdp.replay.records import LoggedGeneration, LoggedTrajectory

TokenScores = Sequence[tuple[Floats, ...]]
"""Log-probability of each output token, for each generation of each trajectory."""


def trainable(generation: LoggedGeneration) -> Bools:
    """Return True for the output tokens that the policy chose, shape (output tokens,)."""
    n = len(generation.output_token_ids or ())
    return (
        np.asarray(generation.loss_mask, dtype=bool)
        if generation.loss_mask
        else np.ones(n, dtype=bool)
    )


def behaviour(generation: LoggedGeneration) -> Floats:
    """Return the logged log-probability of each output token under the sampler."""
    return np.asarray(generation.output_logprobs, dtype=np.float64)


def logged_returns(trajectories: Sequence[LoggedTrajectory], scores: TokenScores) -> LoggedReturns:
    """Return the arrays for the estimators, for one policy's scores.

    Raises:
        ReplayDataError: a trajectory has no reward.
    """
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
                f"trajectory {trajectory.trajectory_id} has no reward, so it cannot be weighted"
            )
        reward[i, len(trajectory.generations) - 1] = trajectory.reward
    return LoggedReturns(log_ratio=log_ratio, reward=reward, mask=mask)


def loglik_per_token(trajectories: Sequence[LoggedTrajectory], scores: TokenScores) -> Floats:
    """Return each trajectory's mean log-probability per trainable token, shape (n,), in nats."""
    means = [
        np.concatenate(
            [s[trainable(g)] for g, s in zip(t.generations, of_generations, strict=True)]
        ).mean()
        for t, of_generations in zip(trajectories, scores, strict=True)
    ]
    return np.asarray(means, dtype=np.float64)


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineAgreement:
    """The mean distance of an engine from the log, on decisions that the same weights made.

    `mean_abs_nats` is None when there is no such decision.
    """

    tokens: int
    mean_abs_nats: float | None


def agreement(
    trajectories: Sequence[LoggedTrajectory], scores: TokenScores, *, version: str
) -> EngineAgreement:
    """Compare an engine with the log where both name `version`.

    They should agree to numerical noise.
    """
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
