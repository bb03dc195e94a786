"""The measurements of a candidate and the baseline, from scores to numbers.

Pure; the release gate judges the result. Two questions are asked of the same trajectories.
*Value*: which reward would the policy have had (importance sampling, compared pairwise on resampled
tasks)? *Held-out likelihood*: how probable does the policy make the trajectories that succeeded?
The likelihood is not a value, because style dominates it, but it needs no overlap and therefore
shows a broken policy even when the importance weights carry no information.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from atdp.replay import intervals
from atdp.replay.config import ReplayConfig
from atdp.replay.coverage import Coverage
from atdp.replay.decision_arrays import (
    EngineAgreement,
    TokenScores,
    agreement,
    logged_returns,
    loglik_per_token,
)
from atdp.replay.diagnostics import WeightDiagnostics, diagnose
from atdp.replay.errors import ReplayDataError
from atdp.replay.estimators import Floats
from atdp.replay.intervals import Interval
from atdp.replay.records import LoggedTrajectory
from atdp.replay.value_estimates import Estimate, guaranteed_estimates, ratio_estimates

HISTOGRAM_BINS = 41
"""Odd, so that a weight of exactly 1 (log weight 0) falls in the middle of a bin."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Likelihood:
    """Mean log-likelihood (nats per token) of successful trajectories, and the difference."""

    trajectories: int
    candidate: float
    baseline: float
    difference: Interval


@dataclass(frozen=True, kw_only=True, slots=True)
class Histogram:
    """Counts of trajectories by log10 weight; `edges` has one entry more than `counts`."""

    edges: tuple[float, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class TenantEvidence:
    """The trajectories of one tenant; `evidenced` when they suffice for evidence about it."""

    tenant: str
    trajectories: int
    mean_reward: float
    evidenced: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Evaluation:
    """Numbers for the release gate and the report.

    A number that could not be computed is None, a list of them empty.
    """

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
        """Return the estimate of that name, or None when it was not made."""
        return next((e for e in self.estimates if e.name == name), None)

    def decisive(self, config: ReplayConfig) -> Estimate | None:
        """Return the estimate that decides under this configuration."""
        return self.estimate(config.decisive_estimate)


def task_of(trajectory: LoggedTrajectory) -> str:
    """Return the cluster of a trajectory: its tenant's task, or itself when the task is unknown."""
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
    """Measure. `usable` and its scores have the same order; `versions` are (candidate, baseline).

    Raises:
        ReplayDataError: a reward is outside the configured range.
    """
    if not usable:
        return Evaluation(coverage=coverage)
    rewards = _rewards(usable, config)
    codes = intervals.task_codes([task_of(t) for t in usable])
    tasks = int(codes.max()) + 1
    counts = intervals.resampled_counts(tasks, resamples=config.resamples, seed=config.seed)
    of_candidate, of_baseline = logged_returns(usable, candidate), logged_returns(usable, baseline)
    return Evaluation(
        coverage=coverage,
        tasks=tasks,
        logged_mean_reward=float(rewards.mean()),
        tenants=_tenants(usable, rewards, config),
        estimates=(
            *ratio_estimates(of_candidate, of_baseline, codes=codes, counts=counts, config=config),
            *guaranteed_estimates(
                of_candidate, of_baseline, rewards=rewards, codes=codes, config=config
            ),
        ),
        candidate_weights=diagnose(of_candidate),
        baseline_weights=diagnose(of_baseline),
        candidate_histogram=_histogram(of_candidate.log_weight),
        likelihood=_likelihood(usable, candidate, baseline, rewards, config),
        candidate_agreement=agreement(usable, candidate, version=versions[0]),
        baseline_agreement=agreement(usable, baseline, version=versions[1]),
    )


def _rewards(usable: Sequence[LoggedTrajectory], config: ReplayConfig) -> Floats:
    rewards = np.array([t.reward for t in usable], dtype=np.float64)
    outside = (rewards < config.reward_min) | (rewards > config.reward_max) | ~np.isfinite(rewards)
    if outside.any():
        raise ReplayDataError(
            f"{int(outside.sum())} rewards are outside "
            f"[{config.reward_min}, {config.reward_max}], for example {rewards[outside][0]}; "
            "set reward_min and reward_max to the range of this reward"
        )
    return rewards


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
    successful = [i for i, reward in enumerate(rewards) if reward >= config.success_threshold]
    if not successful:
        return None
    chosen = [usable[i] for i in successful]
    of_candidate = loglik_per_token(chosen, [candidate[i] for i in successful])
    of_baseline = loglik_per_token(chosen, [baseline[i] for i in successful])
    codes = intervals.task_codes([task_of(t) for t in chosen])
    counts = intervals.resampled_counts(
        int(codes.max()) + 1, resamples=config.resamples, seed=config.seed
    )
    gap = (of_candidate - of_baseline)[:, None]
    estimate, draws = intervals.bootstrap_ratio((gap, np.ones_like(gap)), codes, counts)
    return Likelihood(
        trajectories=len(successful),
        candidate=float(of_candidate.mean()),
        baseline=float(of_baseline.mean()),
        difference=intervals.percentile_interval(estimate, draws, alpha=config.alpha),
    )
