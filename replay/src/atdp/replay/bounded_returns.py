"""Returns of one policy over scored and unscored trajectories, with bounds for the unscored ones.

An unscored trajectory has a reward and no valid weight, because a value inside was redacted, for
instance. What another policy would have earned there is unknown, and leaving it out would assume
that its reward is like that of the others. It is not: where governance redacts what an agent wrote
by mistake, the agent has mostly failed. The model that is used instead has two parts.

- A policy that produced the trajectory itself (every model call names its version) earned exactly
  the logged reward there.
- Any other policy meets such situations as often as the log did, and earns between the lowest and
  the highest reward in them. For a lower bound each is the lowest, for an upper bound the highest.

In the arrays, an unscored trajectory is a row of ratio 1 with its reward at the last decision, so
that every estimator counts it with the weight of one trajectory. Bounds under such a model are
those of Manski, "Nonparametric Bounds on Treatment Effects" (1990).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from atdp.replay.config import ReplayConfig
from atdp.replay.decision_arrays import TokenScores, logged_returns
from atdp.replay.estimators import Bools, Floats, LoggedReturns
from atdp.replay.records import LoggedTrajectory
from atdp.replay.weight_limit import with_weight_limit


@dataclass(frozen=True, kw_only=True, slots=True)
class BoundedReturns:
    """Arrays of one policy; the rows are the scored trajectories, followed by the unscored ones.

    They differ in the rewards of the unscored rows that the policy did not produce: `low` has the
    lowest reward there, `high` the highest, and `logged` the reward of the log.
    """

    scored: LoggedReturns
    low: LoggedReturns
    logged: LoggedReturns
    high: LoggedReturns


def all_scored(returns: LoggedReturns) -> BoundedReturns:
    """Return the arrays of a log in which every trajectory is scored."""
    return BoundedReturns(scored=returns, low=returns, logged=returns, high=returns)


def bounded_returns(
    scored: Sequence[LoggedTrajectory],
    unscored: Sequence[LoggedTrajectory],
    scores: TokenScores,
    *,
    version: str,
    config: ReplayConfig,
) -> BoundedReturns:
    """Return the arrays of the policy `version`; `scores` are those of the scored trajectories."""
    returns = with_weight_limit(logged_returns(scored, scores), config)
    if not unscored:
        return all_scored(returns)
    rewards = np.array([t.reward for t in unscored], dtype=np.float64)
    own = produced_by(unscored, version)
    return BoundedReturns(
        scored=returns,
        low=_with_rows(returns, np.where(own, rewards, config.reward_min)),
        logged=_with_rows(returns, rewards),
        high=_with_rows(returns, np.where(own, rewards, config.reward_max)),
    )


def produced_by(trajectories: Sequence[LoggedTrajectory], version: str) -> Bools:
    """Return True where every model call of the trajectory names `version`, shape (n,).

    A trajectory without a model call was produced by no policy.
    """
    return np.array(
        [
            bool(t.generations) and all(g.weight_version == version for g in t.generations)
            for t in trajectories
        ],
        dtype=bool,
    )


def _with_rows(returns: LoggedReturns, rewards: Floats) -> LoggedReturns:
    """Append a row of ratio 1 for each reward, which is that of the last decision."""
    shape = (len(rewards), returns.mask.shape[1])
    reward = np.zeros(shape)
    reward[:, -1] = rewards
    return replace(
        returns,
        log_ratio=np.concatenate([returns.log_ratio, np.zeros(shape)]),
        reward=np.concatenate([returns.reward, reward]),
        mask=np.concatenate([returns.mask, np.ones(shape, dtype=bool)]),
    )
