"""Every threshold of the release gate in one frozen value, which is part of a run's identity.

The defaults come from measured interval coverage (`benchmarks/verdicts.py`): no approximate
interval counts as evidence below an effective sample size of 30, whatever the estimate.
"""

import math
from dataclasses import dataclass
from typing import Literal, get_args

from atdp.replay.errors import ConfigError

Mode = Literal["superiority", "non_inferiority"]
Estimator = Literal["cwpdis", "wis", "wdr", "pdis", "dr"]
Bound = Literal["approximate", "guaranteed"]
MissingModel = Literal["worst_case", "ignorable"]

SELF_NORMALISED = frozenset({"cwpdis", "wis", "wdr"})
"""Names of the estimators that divide by the sum of the weights."""
LONGEST_TIMEOUT_S = 86_400
"""Longest wait for one answer of an engine."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplayConfig:
    """The rules by which a candidate is judged against the baseline.

    The difference `value(candidate) - value(baseline)` is compared with a threshold: `+margin` for
    superiority, `-margin` for non-inferiority. PASS needs a lower bound of the difference that
    clears the threshold. FAIL means that the candidate is shown worse: the upper bound is below 0
    (superiority) or below `-margin` (non-inferiority).
    """

    mode: Mode = "superiority"
    margin: float = 0.0
    """Least gain that is required (superiority), or greatest loss that is tolerated
    (non-inferiority); in units of reward, >= 0."""
    estimator: Estimator = "cwpdis"
    """The estimator that decides. The approximate intervals of the self-normalised ones (`cwpdis`,
    `wis`, `wdr`) are calibrated; those of the unbiased ones (`pdis`, `dr`) lie below the truth up
    to twice as often as alpha says."""
    bound: Bound = "approximate"
    """`approximate` is calibrated by simulation, for evidence above the minima below; `guaranteed`
    holds at any sample size, and is wide."""
    alpha: float = 0.05
    """One-sided error over all looks at a candidate against a baseline, in (0, 0.5)."""
    look: int = 1
    """Number of this look at the candidate against the baseline, from 1. Look k spends
    `alpha / (k (k + 1))`; the sum over all looks is alpha. The release flow counts the looks."""
    missing: MissingModel = "worst_case"
    """Treatment of trajectories with a reward and without a valid weight, such as those with a
    redaction inside. `worst_case`: the bounds count them with the lowest and the highest reward,
    unless the policy itself produced them. `ignorable`: they are left out, as if they were missing
    at random."""

    min_ess: float = 30.0
    """Effective sample size, at every decision and for both policies, below which the result is
    inconclusive."""
    max_weight_share: float = 0.10
    """Greatest share of the total weight that one trajectory may have."""
    max_mean_weight_error: float = 0.5
    """A larger |mean weight - 1| that also exceeds 3 standard errors shows that the log does not
    support the policy. The mean counts both before and after large weights are cut."""
    min_coverage: float = 0.5
    """Least share of the dataset's trajectories of which every decision has a valid weight."""
    min_tasks: int = 10
    """Least number of tasks (clusters) for an interval over tasks."""
    min_tenant_trajectories: int = 5
    """Scored trajectories that a tenant needs before the report counts as evidence about it."""

    reward_min: float = 0.0
    reward_max: float = 1.0
    """Range of the reward, inclusive. Guaranteed bounds and those for missing weights depend on it,
    so a reward outside is an error."""
    success_threshold: float = 0.5
    """Least reward that counts as success for the held-out likelihood."""
    likelihood_margin: float = 0.5
    """Loss of log-likelihood on successful trajectories, in nats per token, from which on a report
    says that the candidate is broken or acts in another style. It decides nothing by itself."""
    min_likelihood_trajectories: int = 10
    """Successful trajectories that the likelihood guardrail needs."""
    max_engine_disagreement: float = 0.1
    """Greatest mean |engine - logged| log-probability, in nats per token, where both name the same
    weights; a larger one is an ERROR."""

    seed: int = 0
    """Of the order in which the betting bound reads the tasks."""
    weight_clip: float = 20.0
    """Weights are cut to this for the empirical Bernstein bound alone, which stays a valid lower
    bound (rewards >= 0). The limit for the estimate that decides is that of
    `atdp.replay.weight_limit`."""
    batch_size: int = 16
    """Sequences in one scoring request."""
    timeout_s: float = 120.0
    """Longest wait for one scoring request."""

    def __post_init__(self) -> None:
        for name, choices in (
            ("mode", Mode),
            ("estimator", Estimator),
            ("bound", Bound),
            ("missing", MissingModel),
        ):
            if getattr(self, name) not in get_args(choices):
                raise ConfigError(f"{name} must be one of: {', '.join(get_args(choices))}")
        rules = (
            (
                0 <= self.margin < math.inf,
                "margin must be >= 0 and finite; its direction follows from the mode",
            ),
            (0 < self.alpha < 0.5, "alpha must be in (0, 0.5)"),
            (self.look >= 1, "look must be at least 1"),
            (2 <= self.min_ess < math.inf, "min_ess must be at least 2, and finite"),
            (0 < self.max_weight_share <= 1, "max_weight_share must be in (0, 1]"),
            (0 <= self.min_coverage <= 1, "min_coverage must be in [0, 1]"),
            (self.min_tasks >= 2, "min_tasks must be at least 2: one task has no spread"),
            (self.min_tenant_trajectories >= 1, "min_tenant_trajectories must be at least 1"),
            (
                0 < self.reward_max - self.reward_min < math.inf,
                "reward_min must be below reward_max, and both finite",
            ),
            (
                self.margin < self.reward_max - self.reward_min,
                "margin must be below reward_max - reward_min; give it in units of reward",
            ),
            (self.likelihood_margin > 0, "likelihood_margin must be > 0"),
            (
                self.min_likelihood_trajectories >= 2,
                "min_likelihood_trajectories must be at least 2",
            ),
            (self.weight_clip > 1, "weight_clip must be > 1"),
            (self.batch_size >= 1, "batch_size must be at least 1"),
            (
                0 < self.timeout_s <= LONGEST_TIMEOUT_S,
                f"timeout_s must be > 0 and at most {LONGEST_TIMEOUT_S}",
            ),
            (self.seed >= 0, "seed must be at least 0"),
        )
        for holds, message in rules:
            if not holds:
                raise ConfigError(message)

    @property
    def threshold(self) -> float:
        """The threshold for the difference, with its sign."""
        return self.margin if self.mode == "superiority" else -self.margin

    @property
    def harm_threshold(self) -> float:
        """The difference below which a candidate is worse: 0, or `-margin` for non-inferiority."""
        return min(0.0, self.threshold)

    @property
    def spent_alpha(self) -> float:
        """The one-sided error that each bound of this look has."""
        return self.alpha / (self.look * (self.look + 1))

    @property
    def cuts_weights(self) -> bool:
        """True where the decisive estimate has bounds for what a cut weight leaves out."""
        return self.missing == "worst_case" and self.decisive_estimate in SELF_NORMALISED

    @property
    def decisive_estimate(self) -> str:
        """The name of the estimate that decides."""
        return "betting" if self.bound == "guaranteed" else self.estimator
