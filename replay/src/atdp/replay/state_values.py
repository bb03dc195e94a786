"""Predicted values of the states in a log, which doubly robust estimation subtracts from rewards.

The actions of a language model cannot be enumerated, so the prediction depends on the state only: Q
of an action is V of its state. Given a state, w_t - w_{t-1} has mean 0, so V adds nothing to the
expected estimate, however wrong it is; a good V lowers the variance. The prediction for a
trajectory is fitted on other tasks (cross-fitting, Chernozhukov et al. 2018), so that it does not
depend on the rewards that it is subtracted from.

V is a ridge regression of the logged return on what the log says about the state. Whether it beats
a constant is measured on the tasks that were left out (`skill`), and only then it is used.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from atdp.replay.decision_arrays import behaviour, trainable
from atdp.replay.estimators import Floats, LoggedReturns
from atdp.replay.intervals import TaskCodes
from atdp.replay.records import LoggedTrajectory

FOLDS = 5
"""Parts into which the tasks are split; each is predicted from the others."""

LEAST_SKILL = 0.01
"""Least share of the squared error that V removes on tasks that were left out. A smaller one is
within the noise of a few hundred trajectories."""

_RIDGE = 1.0
"""Weight of the squared coefficients of the standardised features, in observations."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StateValues:
    """Cross-fitted values of the states.

    `values` has shape (n, T) and is 0 outside the mask, and everywhere when V is not used. `skill`
    is 1 - squared error / squared error of a constant, on tasks that were left out.
    """

    values: Floats
    skill: float

    @property
    def used(self) -> bool:
        """True when V beats a constant on tasks that were left out."""
        return self.skill >= LEAST_SKILL


def state_features(trajectories: Sequence[LoggedTrajectory], *, horizon: int) -> Floats:
    """Return what the log says before each decision, shape (n, horizon, 4), 0 after the end.

    The features are the index of the decision, the logarithms of the prompt's tokens and of the
    output tokens so far, and the mean log-probability of the latter under the sampler.
    """
    features = np.zeros((len(trajectories), horizon, 4))
    for row, trajectory in zip(features, trajectories, strict=True):
        tokens, total = 0, 0.0
        for t, generation in enumerate(trajectory.generations):
            prompt = len(generation.prompt_token_ids or ())
            row[t] = (t, np.log1p(prompt), np.log1p(tokens), total / max(tokens, 1))
            chosen = behaviour(generation)[trainable(generation)]
            tokens, total = tokens + chosen.size, total + float(chosen.sum())
    return features


def cross_fitted_values(features: Floats, logged: LoggedReturns, codes: TaskCodes) -> StateValues:
    """Return the values of the states, each predicted from other tasks.

    `features` have shape (n, T, k) and depend only on what precedes the decision.
    """
    mask = logged.mask
    to_go = _return_to_go(logged)
    fold = np.broadcast_to((codes % FOLDS)[:, None], mask.shape)
    values, constant = np.zeros(mask.shape), np.zeros(mask.shape)
    for left_out in range(FOLDS):
        train, test = mask & (fold != left_out), mask & (fold == left_out)
        if train.any() and test.any():
            constant[test] = to_go[train].mean()
            values[test] = _ridge(features[train], to_go[train], features[test])
    error = float(((to_go - values)[mask] ** 2).sum())
    of_constant = float(((to_go - constant)[mask] ** 2).sum())
    skill = 1.0 - error / of_constant if of_constant > 0.0 else 0.0
    return StateValues(values=values if skill >= LEAST_SKILL else np.zeros(mask.shape), skill=skill)


def _return_to_go(logged: LoggedReturns) -> Floats:
    """Return the discounted sum of the rewards from each decision on, shape (n, T)."""
    later = np.cumsum(logged.discounted_reward[:, ::-1], axis=1)[:, ::-1]
    return np.asarray(later / logged.discount, dtype=np.float64)


def _ridge(features: Floats, target: Floats, of: Floats) -> Floats:
    """Fit the target (m,) on features (m, k), and predict for the features `of`."""
    centre, spread = features.mean(axis=0), features.std(axis=0)
    varies = spread > 0.0
    scale = np.where(varies, spread, 1.0)
    x, at = ((part - centre) / scale * varies for part in (features, of))
    gram = x.T @ x + _RIDGE * np.eye(x.shape[1])
    coefficients = np.linalg.solve(gram, x.T @ (target - target.mean()))
    return np.asarray(target.mean() + at @ coefficients, dtype=np.float64)
