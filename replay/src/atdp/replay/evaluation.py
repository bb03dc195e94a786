"""Everything measured about a candidate and the baseline, from scores to numbers.

Pure; the gate judges it.

Two questions are asked of the same trajectories. *Value*: what reward would the policy have had
(importance sampling, compared pairwise on resampled tasks)? *Held-out likelihood*: how probable
does it make the trajectories that succeeded? The second is not a value, style dominates it, but it
needs no overlap and so still sees a broken policy when the first has nothing left to say.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from atdp.replay import intervals
from atdp.replay.config import ReplayConfig
from atdp.replay.coverage import Coverage
from atdp.replay.decisions import (
    EngineAgreement,
    TokenScores,
    agreement,
    logged_returns,
    loglik_per_token,
)
from atdp.replay.diagnostics import WeightDiagnostics, diagnose
from atdp.replay.errors import ReplayDataError
from atdp.replay.estimators import Floats, LoggedReturns, cwpdis_terms, trajectory_wis_terms
from atdp.replay.intervals import Interval
from atdp.replay.records import LoggedTrajectory

HISTOGRAM_BINS = 41
"""Odd, so that a weight of exactly 1 (log weight 0) falls in the middle of a bin of its own."""


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """One estimator's values; `guaranteed` bounds hold at any sample size, others only with enough ESS."""

    name: str
    title: str
    guaranteed: bool
    candidate: Interval
    baseline: Interval
    difference: Interval


@dataclass(frozen=True, kw_only=True)
class Likelihood:
    """Mean log-likelihood (nats per token) of successful trajectories, and the paired difference."""

    trajectories: int
    candidate: float
    baseline: float
    difference: Interval


@dataclass(frozen=True, kw_only=True)
class Histogram:
    """Counts of trajectories by log10 weight; `edges` has one entry more than `counts`."""

    edges: tuple[float, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class TenantEvidence:
    """What one tenant contributes; `evidenced` when it is enough to speak about that tenant."""

    tenant: str
    trajectories: int
    mean_reward: float
    evidenced: bool


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Numbers for the gate and the report; what could not be computed is None or empty."""

    coverage: Coverage
    tasks: int = 0
    logged_mean_reward: float | None = None
    tenants: tuple[TenantEvidence, ...] = ()
    estimates: tuple[Estimate, ...] = ()
    candidate_weights: WeightDiagnostics | None = None
    baseline_weights: WeightDiagnostics | None = None
    candidate_histogram: Histogram | None = None
    likelihood: Likelihood | None = None
    candidate_agreement: EngineAgreement | None = None
    baseline_agreement: EngineAgreement | None = None

    def estimate(self, name: str) -> Estimate | None:
        """The estimate of that name, if it was made."""
        return next((e for e in self.estimates if e.name == name), None)


def task_of(trajectory: LoggedTrajectory) -> str:
    """Cluster of a trajectory: its tenant's task, or itself when the task is unknown."""
    task = (
        f"task {trajectory.task_id}"
        if trajectory.task_id is not None
        else f"only {trajectory.trajectory_id}"
    )
    return f"{trajectory.tenant_id}/{task}"


def evaluate(
    usable: Sequence[LoggedTrajectory],
    coverage: Coverage,
    *,
    candidate: TokenScores,
    baseline: TokenScores,
    versions: tuple[str, str],
    config: ReplayConfig,
) -> Evaluation:
    """Measure. `usable` and its scores come in the same order; `versions` are (candidate, baseline).

    Raises `ReplayDataError` when a reward is outside the range that the configuration promises.
    """
    if not usable:
        return Evaluation(coverage=coverage)
    rewards = np.array([t.reward for t in usable], dtype=np.float64)
    outside = (rewards < config.reward_min) | (rewards > config.reward_max) | ~np.isfinite(rewards)
    if outside.any():
        raise ReplayDataError(
            f"{int(outside.sum())} rewards are outside [{config.reward_min}, {config.reward_max}], for example"
            f" {rewards[outside][0]}; set reward_min and reward_max to the range of this reward"
        )
    codes = intervals.task_codes([task_of(t) for t in usable])
    counts = intervals.resampled_counts(
        int(codes.max()) + 1, resamples=config.resamples, seed=config.seed
    )
    of_candidate, of_baseline = logged_returns(usable, candidate), logged_returns(usable, baseline)
    return Evaluation(
        coverage=coverage,
        tasks=int(codes.max()) + 1,
        logged_mean_reward=float(rewards.mean()),
        tenants=_tenants(usable, rewards, config),
        estimates=(
            *_ratio_estimates(of_candidate, of_baseline, codes, counts, config),
            *_guaranteed_estimates(of_candidate, of_baseline, rewards, codes, config),
        ),
        candidate_weights=diagnose(of_candidate),
        baseline_weights=diagnose(of_baseline),
        candidate_histogram=_histogram(of_candidate.log_weight),
        likelihood=_likelihood(usable, candidate, baseline, rewards, config),
        candidate_agreement=agreement(usable, candidate, version=versions[0]),
        baseline_agreement=agreement(usable, baseline, version=versions[1]),
    )


def _tenants(
    usable: Sequence[LoggedTrajectory], rewards: Floats, config: ReplayConfig
) -> tuple[TenantEvidence, ...]:
    names = np.array([t.tenant_id for t in usable])
    return tuple(
        TenantEvidence(
            tenant=str(name),
            trajectories=int((names == name).sum()),
            mean_reward=float(rewards[names == name].mean()),
            evidenced=bool((names == name).sum() >= config.min_tenant_trajectories),
        )
        for name in np.unique(names)
    )


def _ratio_estimates(
    candidate: LoggedReturns,
    baseline: LoggedReturns,
    codes: npt.NDArray[np.int64],
    counts: Floats,
    config: ReplayConfig,
) -> tuple[Estimate, ...]:
    def plain(logged: LoggedReturns) -> tuple[Floats, Floats]:
        with np.errstate(over="ignore"):
            weighted = np.exp(logged.cumulative_log_weight) * logged.discounted_reward
        return np.nan_to_num(weighted.sum(axis=1, keepdims=True)), np.ones((len(weighted), 1))

    made = []
    for name, title, terms in (
        ("cwpdis", "per-decision weighted IS", cwpdis_terms),
        ("wis", "weighted IS", trajectory_wis_terms),
        ("pdis", "per-decision IS (unbiased)", plain),
    ):
        c, c_draws = intervals.bootstrap_ratio(terms(candidate), codes, counts)
        b, b_draws = intervals.bootstrap_ratio(terms(baseline), codes, counts)
        made.append(
            Estimate(
                name=name,
                title=title,
                guaranteed=False,
                candidate=intervals.percentile_interval(c, c_draws, alpha=config.alpha),
                baseline=intervals.percentile_interval(b, b_draws, alpha=config.alpha),
                difference=intervals.percentile_interval(
                    c - b, c_draws - b_draws, alpha=config.alpha
                ),
            )
        )
    return tuple(made)


def _guaranteed_estimates(
    candidate: LoggedReturns,
    baseline: LoggedReturns,
    rewards: Floats,
    codes: npt.NDArray[np.int64],
    config: ReplayConfig,
) -> tuple[Estimate, ...]:
    """Bounds that hold at any n: alpha/2 for each policy's side, so alpha for the difference.

    With rewards scaled to [0, 1] and E[w] = 1, the value is at least L(w r) and at most 1 - L(w (1
    - r)).
    """
    span = config.reward_max - config.reward_min
    scaled = (rewards - config.reward_min) / span
    alpha = config.alpha / 2

    def bernstein(values: Floats) -> float:
        units = intervals.mean_by_task(np.minimum(values, config.weight_clip), codes)
        return intervals.empirical_bernstein_lower(units, upper=config.weight_clip, alpha=alpha)

    def betting(values: Floats) -> float:
        return intervals.betting_lower(
            intervals.mean_by_task(values, codes), alpha=alpha, seed=config.seed
        )

    def value(logged: LoggedReturns, lower: str) -> Interval:
        bound = bernstein if lower == "bernstein" else betting
        weight = np.exp(np.minimum(logged.log_weight, 700.0))
        low, high = min(1.0, bound(weight * scaled)), 1.0 - min(1.0, bound(weight * (1.0 - scaled)))
        estimate = float(intervals.mean_by_task(weight * scaled, codes).mean())
        return Interval(
            estimate=config.reward_min + span * estimate,
            lower=config.reward_min + span * low,
            upper=config.reward_min + span * high,
        )

    made = []
    for name, title in (
        ("betting", "IS, betting bound"),
        ("bernstein", "clipped IS, empirical Bernstein"),
    ):
        c, b = value(candidate, name), value(baseline, name)
        difference = Interval(
            estimate=c.estimate - b.estimate, lower=c.lower - b.upper, upper=c.upper - b.lower
        )
        made.append(
            Estimate(
                name=name,
                title=title,
                guaranteed=True,
                candidate=c,
                baseline=b,
                difference=difference,
            )
        )
    return tuple(made)


def _histogram(log_weight: Floats) -> Histogram:
    log10 = log_weight / np.log(10.0)
    reach = max(0.5, float(np.ceil(np.abs(log10).max() * 2) / 2))
    counts, edges = np.histogram(log10, bins=HISTOGRAM_BINS, range=(-reach, reach))
    return Histogram(edges=tuple(float(e) for e in edges), counts=tuple(int(c) for c in counts))


def _likelihood(
    usable: Sequence[LoggedTrajectory],
    candidate: TokenScores,
    baseline: TokenScores,
    rewards: Floats,
    config: ReplayConfig,
) -> Likelihood | None:
    won = [i for i, reward in enumerate(rewards) if reward >= config.success_threshold]
    if not won:
        return None
    chosen = [usable[i] for i in won]
    of_candidate = loglik_per_token(chosen, [candidate[i] for i in won])
    of_baseline = loglik_per_token(chosen, [baseline[i] for i in won])
    codes = intervals.task_codes([task_of(t) for t in chosen])
    counts = intervals.resampled_counts(
        int(codes.max()) + 1, resamples=config.resamples, seed=config.seed
    )
    gap = (of_candidate - of_baseline)[:, None]
    estimate, draws = intervals.bootstrap_ratio((gap, np.ones_like(gap)), codes, counts)
    return Likelihood(
        trajectories=len(won),
        candidate=float(of_candidate.mean()),
        baseline=float(of_baseline.mean()),
        difference=intervals.percentile_interval(estimate, draws, alpha=config.alpha),
    )
