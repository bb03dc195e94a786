"""Every threshold of the gate in one frozen value; it is part of a run's identity.

The defaults come from measured interval coverage: with an effective sample size of 30 a nominal 95
% bootstrap interval covers about 94 %, with 3 it covers about 53 %. So below 30 no interval is
shown as evidence, whatever the estimate.
"""

from dataclasses import dataclass
from typing import Literal

from atdp.replay.errors import ConfigError

Mode = Literal["superiority", "non_inferiority"]
Estimator = Literal["cwpdis", "wis"]
Bound = Literal["bootstrap", "guaranteed"]


@dataclass(frozen=True, kw_only=True)
class ReplayConfig:
    """How a candidate is judged against the baseline.

    The question is whether `value(candidate) - value(baseline)` clears a threshold: `+margin` for
    superiority, `-margin` for non-inferiority. PASS needs the lower bound at or above it, FAIL the
    upper bound below it.
    """

    mode: Mode = "superiority"
    margin: float = 0.0
    """Least gain asked for (superiority), or greatest loss tolerated (non-inferiority); in units of
    reward, >= 0."""
    estimator: Estimator = "cwpdis"
    bound: Bound = "bootstrap"
    """`bootstrap` is approximate (hence the floors below); `guaranteed` holds at any sample size,
    and is wide."""
    alpha: float = 0.05
    """One-sided error of each bound, in (0, 0.5)."""

    min_ess: float = 30.0
    """Effective sample size, at every decision and for both policies, below which nothing is
    concluded."""
    max_weight_share: float = 0.10
    """Greatest share of the total weight that one trajectory may hold."""
    max_mean_weight_error: float = 0.5
    """|mean weight - 1| above this (beyond 3 standard errors) says that the log does not support
    the policy."""
    min_coverage: float = 0.5
    """Least share of the dataset's trajectories that every decision of must have a valid weight."""
    min_tasks: int = 10
    """Tasks (clusters) needed before an interval over tasks means anything."""
    min_tenant_trajectories: int = 5
    """Scored trajectories a tenant must have before the report counts as evidence about that
    tenant."""

    reward_min: float = 0.0
    reward_max: float = 1.0
    """Range of the reward, inclusive; guaranteed bounds rest on it, so a reward outside is an
    error."""
    success_threshold: float = 0.5
    """A reward at or above this counts as success for the held-out likelihood."""
    likelihood_margin: float = 0.5
    """Loss of log-likelihood on successful trajectories, in nats per token, that is a FAIL when it
    is certain."""
    min_likelihood_trajectories: int = 10
    """Successful trajectories needed before the likelihood guardrail may speak."""
    max_engine_disagreement: float = 0.1
    """Mean |engine - logged| log-probability, nats per token, where both claim the same weights;
    above: ERROR."""

    resamples: int = 2000
    seed: int = 0
    weight_clip: float = 20.0
    """Weights are cut to this for the empirical Bernstein bound, which stays a valid lower bound
    (rewards >= 0)."""
    batch_size: int = 16
    """Sequences in one scoring request."""
    timeout_s: float = 120.0
    """Longest wait for one scoring request."""

    def __post_init__(self) -> None:
        rules = (
            (
                self.mode in ("superiority", "non_inferiority"),
                "mode must be superiority or non_inferiority",
            ),
            (self.estimator in ("cwpdis", "wis"), "estimator must be cwpdis or wis"),
            (self.bound in ("bootstrap", "guaranteed"), "bound must be bootstrap or guaranteed"),
            (self.margin >= 0, "margin must be >= 0; its direction follows from the mode"),
            (0 < self.alpha < 0.5, "alpha must be in (0, 0.5)"),
            (self.min_ess >= 2, "min_ess must be at least 2"),
            (0 < self.max_weight_share <= 1, "max_weight_share must be in (0, 1]"),
            (0 <= self.min_coverage <= 1, "min_coverage must be in [0, 1]"),
            (self.min_tasks >= 2, "min_tasks must be at least 2: one task has no spread"),
            (self.min_tenant_trajectories >= 1, "min_tenant_trajectories must be at least 1"),
            (self.reward_min < self.reward_max, "reward_min must be below reward_max"),
            (self.likelihood_margin > 0, "likelihood_margin must be > 0"),
            (
                self.min_likelihood_trajectories >= 2,
                "min_likelihood_trajectories must be at least 2",
            ),
            (self.resamples >= 200, "resamples must be at least 200"),
            (self.weight_clip > 1, "weight_clip must be > 1"),
            (self.batch_size >= 1, "batch_size must be at least 1"),
            (self.timeout_s > 0, "timeout_s must be > 0"),
        )
        for holds, message in rules:
            if not holds:
                raise ConfigError(message)

    @property
    def threshold(self) -> float:
        """What the difference must clear."""
        return self.margin if self.mode == "superiority" else -self.margin
