r"""Off-policy value estimators for sequential decisions, over plain arrays.

*n* trajectories of up to *T* decisions were logged under a behaviour policy π_b; the question is
the return that another policy π_e would have had. A decision is one generation (one model call),
and its probability is the product over its tokens. With ρ_t = π_e(a_t|s_t) / π_b(a_t|s_t) and
w_t = ρ_0 ⋯ ρ_t:

- TIS (1/n) Σ_i w_{i,T-1} Σ_t γ^t r_{i,t}: Precup, Sutton, Singh 2000.
- PDIS (1/n) Σ_i Σ_t γ^t w_{i,t} r_{i,t}: ibid., per decision.
- WIS Σ_i w_{i,T-1} G_i / Σ_i w_{i,T-1}: self-normalised TIS.
- CWPDIS Σ_t γ^t (Σ_i w_{i,t} r_{i,t}) / (Σ_i w_{i,t}): Thomas 2015, "consistent weighted
  per-decision".
- DR (1/n) Σ_i Σ_t γ^t (w_{i,t} (r_{i,t} - Q_{i,t}) + w_{i,t-1} V_{i,t}) with predictions Q of the
  taken action and V of the state: Jiang and Li 2016, unrolled as in Thomas and Brunskill 2016,
  equation 4. Any Q and V that belong together, and that were fitted on other trajectories, keep it
  unbiased; good ones lower its variance.
- WDR: DR with the self-normalised weights of CWPDIS (Thomas and Brunskill 2016, section 5). With
  Q = V = 0 it is CWPDIS, as DR is then PDIS.

Trajectories of different length are padded: after its end a trajectory is in an absorbing state
with ratio 1 and reward 0, so that its weight stays constant. Self-normalised forms are computed
relative to the largest log weight, so that they never overflow. Self-normalised estimates are
consistent but biased, and stay within the range of the returns. Plain estimates are unbiased, with
a variance that grows exponentially with the horizon. `atdp.replay.diagnostics` says which of them
can be trusted.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from atdp.replay.errors import ReplayDataError

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Terms = tuple[Floats, Floats]
"""Numerator and denominator terms of an estimate for one policy, each of shape (n, T)."""

_LARGEST_LOG_WEIGHT = 700.0
"""Largest logarithm whose exponential is still a finite float, with some reserve (limit: 709)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LoggedReturns:
    """Arrays of shape (n, T): row = trajectory, column = decision, padded at the end.

    `log_ratio` is log π_e - log π_b of the taken action, `reward` the reward of the decision,
    `mask` true where a decision exists; outside the mask both are exactly 0. `gamma` is the
    discount per decision, in (0, 1]. Weights above `weight_limit` are cut to it
    (`atdp.replay.weight_limit`).
    """

    log_ratio: Floats
    reward: Floats
    mask: Bools
    gamma: float = 1.0
    weight_limit: float = math.inf

    def __post_init__(self) -> None:
        if not self.log_ratio.shape == self.reward.shape == self.mask.shape or self.mask.ndim != 2:
            raise ReplayDataError(
                f"log_ratio {self.log_ratio.shape}, reward {self.reward.shape} "
                f"and mask {self.mask.shape} must have the same (n, T) shape"
            )
        if self.mask.size == 0:
            raise ReplayDataError("there is no trajectory to estimate from")
        if not 0.0 < self.gamma <= 1.0:
            raise ReplayDataError(f"gamma {self.gamma} is outside (0, 1]")
        if np.any(~self.mask[:, :-1] & self.mask[:, 1:]) or not self.mask[:, 0].all():
            raise ReplayDataError(
                "a mask row must be true up to the trajectory's end and false after it"
            )
        if np.any(self.log_ratio[~self.mask]) or np.any(self.reward[~self.mask]):
            raise ReplayDataError("log_ratio and reward must be 0 after a trajectory's end")
        if not (np.isfinite(self.log_ratio).all() and np.isfinite(self.reward).all()):
            raise ReplayDataError("log_ratio and reward must be finite")

    @property
    def cumulative_log_weight(self) -> Floats:
        """Log w_t, shape (n, T); constant after a trajectory's end."""
        return np.minimum(np.cumsum(self.log_ratio, axis=1), math.log(self.weight_limit))

    @property
    def log_weight(self) -> Floats:
        """Log weight of each whole trajectory, shape (n,)."""
        whole = self.log_ratio.sum(axis=1)
        return np.asarray(np.minimum(whole, math.log(self.weight_limit)), dtype=np.float64)

    @property
    def uncut(self) -> "LoggedReturns":
        """The same log with its whole weights."""
        return replace(self, weight_limit=math.inf)

    @property
    def discount(self) -> Floats:
        """γ^t, shape (T,)."""
        return np.asarray(self.gamma ** np.arange(self.reward.shape[1]), dtype=np.float64)

    @property
    def discounted_reward(self) -> Floats:
        """γ^t r_t, shape (n, T)."""
        return self.reward * self.discount

    @property
    def returns(self) -> Floats:
        """Discounted return of each trajectory, shape (n,)."""
        return np.asarray(self.discounted_reward.sum(axis=1), dtype=np.float64)


def trajectory_weights(logged: LoggedReturns) -> Floats:
    """Return the weight w_{T-1} of each trajectory, shape (n,).

    The mean of weight times return is TIS. Weights too large for a float are cut.
    """
    return np.asarray(np.exp(np.minimum(logged.log_weight, _LARGEST_LOG_WEIGHT)), dtype=np.float64)


def decision_weights(logged: LoggedReturns) -> Floats:
    """Return the weights w_t, shape (n, T). Weights too large for a float are cut."""
    log_weight = np.minimum(logged.cumulative_log_weight, _LARGEST_LOG_WEIGHT)
    return np.asarray(np.exp(log_weight), dtype=np.float64)


def pdis_terms(logged: LoggedReturns) -> Terms:
    """Return the numerator terms Σ_t γ^t w_t r_t and denominator terms 1 of PDIS, each (n, 1).

    A term that is not a number because its weight overflows becomes 0, an infinite one the largest
    float.
    """
    with np.errstate(over="ignore"):
        weighted = np.exp(logged.cumulative_log_weight) * logged.discounted_reward
    return np.nan_to_num(weighted.sum(axis=1, keepdims=True)), np.ones((len(weighted), 1))


def wis_terms(logged: LoggedReturns) -> Terms:
    """Return the numerator and denominator terms of WIS, each (n, 1), on a common scale."""
    weight = np.exp(logged.log_weight - logged.log_weight.max())[:, None]
    return weight * logged.returns[:, None], weight


def cwpdis_terms(logged: LoggedReturns) -> Terms:
    """Return the numerator and denominator terms of CWPDIS, each (n, T).

    They are scaled, at each decision, by the largest weight there. The release gate uses this
    estimator unless it is configured otherwise.
    """
    log_weight = logged.cumulative_log_weight
    weight = np.exp(log_weight - log_weight.max(axis=0, keepdims=True))
    return weight * logged.discounted_reward, weight


def dr_terms(logged: LoggedReturns, action_values: Floats, state_values: Floats) -> Terms:
    """Return the numerator terms and denominator terms 1 of DR, each (n, 1).

    `action_values` are Q of the taken actions, `state_values` are V, both of shape (n, T) and 0
    outside the mask. Numbers that overflow are treated as by `pdis_terms`.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        weight = np.exp(logged.cumulative_log_weight)
        before = np.hstack([np.ones((len(weight), 1)), weight[:, :-1]])
        terms = weight * (logged.discounted_reward - logged.discount * action_values)
        terms += before * logged.discount * state_values
    return np.nan_to_num(terms.sum(axis=1, keepdims=True)), np.ones((len(weight), 1))


def weighted_dr_terms(logged: LoggedReturns, action_values: Floats, state_values: Floats) -> Terms:
    """Return the numerator and denominator terms of WDR, each (n, 2 T), on a common scale.

    The first T columns correct the predictions by w_t (r_t - Q_t), the others hold w_{t-1} V_t. See
    `dr_terms` for the arguments.
    """
    log_weight = logged.cumulative_log_weight
    before = np.hstack([np.zeros((len(log_weight), 1)), log_weight[:, :-1]])
    both = np.hstack([log_weight, before])
    weight = np.exp(both - both.max(axis=0, keepdims=True))
    errors = logged.discounted_reward - logged.discount * action_values
    return weight * np.hstack([errors, logged.discount * state_values]), weight


def ratio_of_sums(numerator: Floats, denominator: Floats) -> float:
    """Return the estimate Σ_t (Σ_i numerator / Σ_i denominator) for terms of shape (n, T).

    The estimate of a reweighted sample, such as a bootstrap replicate, has the same form.
    """
    return float((numerator.sum(axis=0) / denominator.sum(axis=0)).sum())
