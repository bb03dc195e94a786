r"""Off-policy value estimators for sequential decisions, over plain arrays.

Setting. *n* trajectories of up to *T* decisions were logged under a behaviour policy π_b; the
question is what return another policy π_e would have had. A decision is one generation (one model
call), its probability the product over its tokens. With ρ_t = π_e(a_t|s_t) / π_b(a_t|s_t) and w_t =
ρ_0 ⋯ ρ_t:

- TIS (1/n) Σ_i w_{i,T-1} Σ_t γ^t r_{i,t} Precup, Sutton, Singh 2000
- PDIS (1/n) Σ_i Σ_t γ^t w_{i,t} r_{i,t} ibid., per decision
- WIS Σ_i w_{i,T-1} G_i / Σ_i w_{i,T-1} self-normalised TIS
- CWPDIS Σ_t γ^t (Σ_i w_{i,t} r_{i,t}) / (Σ_i w_{i,t}) Thomas 2015, "consistent weighted
  per-decision"
- DR (1/n) Σ_i Σ_t γ^t [ w_{i,t}(r_{i,t} - Q(s,a)) + w_{i,t-1} V(s) ] Jiang and Li 2016, eq. 10

Variable length is padding: after its end a trajectory sits in an absorbing state with ratio 1 and
reward 0, so its weight stays where it was. Self-normalised forms are computed relative to the
largest log weight and so never overflow. Self-normalised estimates are consistent but biased, and
stay within the range of the returns; plain ones are unbiased with a variance that grows
exponentially with the horizon. Which to trust is for `atdp.replay.diagnostics` to say.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from atdp.replay.errors import ReplayDataError

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class LoggedReturns:
    """Arrays of shape (n, T): row = trajectory, column = decision, padded at the end.

    `log_ratio` is log π_e - log π_b of the taken action, `reward` the reward of the decision,
    `mask` true where a decision exists; outside the mask both are exactly 0. `gamma` is the
    discount per decision, in (0, 1].
    """

    log_ratio: Floats
    reward: Floats
    mask: Bools
    gamma: float = 1.0

    def __post_init__(self) -> None:
        if not self.log_ratio.shape == self.reward.shape == self.mask.shape or self.mask.ndim != 2:
            raise ReplayDataError(
                f"log_ratio {self.log_ratio.shape}, reward {self.reward.shape} and mask {self.mask.shape} must be one"
                " (n, T) shape"
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
        return np.cumsum(self.log_ratio, axis=1)

    @property
    def log_weight(self) -> Floats:
        """Log weight of each whole trajectory, shape (n,)."""
        return np.asarray(self.log_ratio.sum(axis=1), dtype=np.float64)

    @property
    def discounted_reward(self) -> Floats:
        """γ^t r_t, shape (n, T)."""
        return self.reward * self.gamma ** np.arange(self.reward.shape[1])

    @property
    def returns(self) -> Floats:
        """Discounted return of each trajectory, shape (n,)."""
        return np.asarray(self.discounted_reward.sum(axis=1), dtype=np.float64)


def trajectory_values(logged: LoggedReturns) -> Floats:
    """Per-trajectory terms w_{T-1} G, shape (n,), whose mean is TIS; infinite where a weight overflows."""
    with np.errstate(over="ignore"):
        return np.asarray(np.exp(logged.log_weight) * logged.returns, dtype=np.float64)


def per_decision_values(logged: LoggedReturns) -> Floats:
    """Per-trajectory terms Σ_t γ^t w_t r_t, shape (n,), whose mean is PDIS."""
    with np.errstate(over="ignore"):
        weight = np.exp(logged.cumulative_log_weight)
    terms = np.where(logged.discounted_reward == 0.0, 0.0, weight * logged.discounted_reward)
    return np.asarray(terms.sum(axis=1), dtype=np.float64)


def trajectory_is(logged: LoggedReturns) -> float:
    """LoggedTrajectory-wise importance sampling (TIS)."""
    return float(trajectory_values(logged).mean())


def per_decision_is(logged: LoggedReturns) -> float:
    """Per-decision importance sampling (PDIS)."""
    return float(per_decision_values(logged).mean())


def trajectory_wis_terms(logged: LoggedReturns) -> tuple[Floats, Floats]:
    """Numerator and denominator terms of WIS, each (n, 1), on a common scale.

    The estimate of any reweighted sample (a bootstrap replicate) is Σ_t sum(numerator) /
    sum(denominator).
    """
    weight = np.exp(logged.log_weight - logged.log_weight.max())[:, None]
    return weight * logged.returns[:, None], weight


def cwpdis_terms(logged: LoggedReturns) -> tuple[Floats, Floats]:
    """Numerator and denominator terms of CWPDIS, each (n, T), scaled per decision by the largest weight there."""
    log_weight = logged.cumulative_log_weight
    weight = np.exp(log_weight - log_weight.max(axis=0, keepdims=True))
    return weight * logged.discounted_reward, weight


def ratio_of_sums(numerator: Floats, denominator: Floats) -> float:
    """Σ_t (Σ_i numerator / Σ_i denominator) for terms of shape (n, T)."""
    return float((numerator.sum(axis=0) / denominator.sum(axis=0)).sum())


def trajectory_wis(logged: LoggedReturns) -> float:
    """Weighted (self-normalised) trajectory importance sampling."""
    return ratio_of_sums(*trajectory_wis_terms(logged))


def cwpdis(logged: LoggedReturns) -> float:
    """Per-decision weighted importance sampling: the estimator that the gate uses."""
    return ratio_of_sums(*cwpdis_terms(logged))


def direct_method(value_of_first_state: Floats) -> float:
    """DM: mean over trajectories of V(s_0), shape (n,).

    Its error is the model's and no interval shows it.
    """
    return float(value_of_first_state.mean())


def doubly_robust(
    logged: LoggedReturns, *, q_taken: Floats, v_state: Floats, self_normalised: bool = False
) -> float:
    """DR with a given model: `q_taken` = Q(s_t, a_t), `v_state` = Σ_a π_e(a|s_t) Q(s_t, a), each (n, T).

    With Q = 0 this is PDIS. A poor Q can be worse than PDIS, so compare Q with a constant on
    held-out data first.
    """
    if not q_taken.shape == v_state.shape == logged.mask.shape:
        raise ReplayDataError(
            f"q_taken {q_taken.shape} and v_state {v_state.shape} must be {logged.mask.shape}"
        )
    weight = np.exp(logged.cumulative_log_weight)
    before = np.concatenate([np.ones((weight.shape[0], 1)), weight[:, :-1]], axis=1)
    if self_normalised:
        weight = weight / weight.mean(axis=0)
        before = before / before.mean(axis=0)
    discount = logged.gamma ** np.arange(weight.shape[1])
    terms = weight * (logged.reward - q_taken) + before * v_state
    return float((np.where(logged.mask, terms, 0.0) * discount).sum(axis=1).mean())
