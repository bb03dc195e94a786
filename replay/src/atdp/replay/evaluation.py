"""The measurements of a candidate and the baseline, from scores to numbers.

Pure; the release gate judges the result. The value (the reward that a policy would have had) is
estimated by importance sampling over the scored trajectories, compared pairwise and clustered by
task, with bounds for the unscored ones. Beside it stand the held-out likelihood and the
comparison of scored and unscored trajectories, which says whether leaving some out would mislead.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from atdp.replay import intervals
from atdp.replay.bounded_estimates import (
    UnscoredComparison,
    bounded_estimates,
    compare_unscored,
)
from atdp.replay.bounded_returns import (
    BoundedReturns,
    all_scored,
    bounded_returns,
    produced_by,
)
from atdp.replay.clip_sweep import ClippedEstimate, clip_sweep
from atdp.replay.config import ReplayConfig
from atdp.replay.coverage import Coverage, Population
from atdp.replay.decision_arrays import EngineAgreement, TokenScores, agreement
from atdp.replay.diagnostics import WeightDiagnostics, diagnose
from atdp.replay.errors import ReplayDataError
from atdp.replay.estimators import Floats
from atdp.replay.held_out_likelihood import Likelihood, held_out_likelihood
from atdp.replay.records import LoggedTrajectory, task_of
from atdp.replay.state_values import StateValues, cross_fitted_values, state_features
from atdp.replay.value_estimates import Estimate

HISTOGRAM_BINS = 41
"""Odd, so that a weight of exactly 1 (log weight 0) falls in the middle of a bin."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Histogram:
    """Counts of trajectories by log10 weight; `edges` has one entry more than `counts`."""

    edges: tuple[float, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class TenantEvidence:
    """The scored trajectories of one tenant, and the mean of all its logged rewards.

    `evidenced` when the trajectories suffice for evidence about the tenant.
    """

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
    without_bounds: Estimate | None = None
    """The decisive estimate as it would be if what is missing were like the rest; None where that
    is assumed."""
    unscored: UnscoredComparison | None = None
    state_value_skill: float | None = None
    """See `StateValues.skill`."""
    clip_sweep: tuple[ClippedEstimate, ...] = ()
    candidate_weights: WeightDiagnostics | None = None
    baseline_weights: WeightDiagnostics | None = None
    candidate_histogram: Histogram | None = None
    likelihood: Likelihood | None = None
    candidate_agreement: EngineAgreement | None = None
    baseline_agreement: EngineAgreement | None = None

    def estimate(self, name: str) -> Estimate | None:
        """Return the estimate of that name, or None when it was not made."""
        return _named(self.estimates, name)

    def decisive(self, config: ReplayConfig) -> Estimate | None:
        """Return the estimate that decides under this configuration."""
        return self.estimate(config.decisive_estimate)


def evaluate(
    population: Population,
    *,
    candidate: TokenScores,
    baseline: TokenScores,
    versions: tuple[str, str],
    config: ReplayConfig,
) -> Evaluation:
    """Measure. The scores are those of `population.scored`; `versions` are (candidate, baseline).

    Raises:
        ReplayDataError: a reward is outside the configured range.
    """
    scored, coverage = population.scored, population.coverage
    if not scored:
        return Evaluation(coverage=coverage)
    rewards = _rewards(population.rewarded, config)
    bounded = population.unscored if config.missing == "worst_case" else ()
    of_candidate, of_baseline = (
        bounded_returns(scored, bounded, scores, version=version, config=config)
        for scores, version in zip((candidate, baseline), versions, strict=True)
    )
    codes = intervals.task_codes([task_of(t) for t in scored])
    values = cross_fitted_values(
        state_features(scored, horizon=of_candidate.scored.mask.shape[1]),
        of_candidate.scored,
        codes,
    )
    return Evaluation(
        coverage=coverage,
        tasks=int(codes.max()) + 1,
        logged_mean_reward=float(rewards.mean()),
        tenants=_tenants(population, rewards, config),
        estimates=_estimates([*scored, *bounded], of_candidate, of_baseline, values, config),
        without_bounds=_named(
            _estimates(
                scored,
                all_scored(of_candidate.scored),
                all_scored(of_baseline.scored),
                values,
                replace(config, missing="ignorable"),
            ),
            config.decisive_estimate,
        )
        if config.missing == "worst_case"
        else None,
        unscored=_unscored(population, rewards, versions, config),
        state_value_skill=values.skill,
        clip_sweep=clip_sweep(of_candidate.scored, of_baseline.scored),
        candidate_weights=diagnose(of_candidate.scored),
        baseline_weights=diagnose(of_baseline.scored),
        candidate_histogram=_histogram(of_candidate.scored.uncut.log_weight),
        likelihood=held_out_likelihood(scored, candidate, baseline, config),
        candidate_agreement=agreement(scored, candidate, version=versions[0]),
        baseline_agreement=agreement(scored, baseline, version=versions[1]),
    )


def _estimates(
    trajectories: Sequence[LoggedTrajectory],
    candidate: BoundedReturns,
    baseline: BoundedReturns,
    values: StateValues,
    config: ReplayConfig,
) -> tuple[Estimate, ...]:
    """Return the estimates; the state values of unscored rows, which have none, are 0."""
    shape = candidate.logged.mask.shape
    padded = np.zeros(shape)
    padded[: len(values.values)] = values.values
    return bounded_estimates(
        candidate,
        baseline,
        codes=intervals.task_codes([task_of(t) for t in trajectories]),
        state_values=padded,
        config=config,
    )


def _named(estimates: Sequence[Estimate], name: str) -> Estimate | None:
    return next((e for e in estimates if e.name == name), None)


def _rewards(rewarded: Sequence[LoggedTrajectory], config: ReplayConfig) -> Floats:
    rewards = np.array([t.reward for t in rewarded], dtype=np.float64)
    outside = (rewards < config.reward_min) | (rewards > config.reward_max) | ~np.isfinite(rewards)
    if outside.any():
        raise ReplayDataError(
            f"{int(outside.sum())} of {len(rewards)} rewards are outside "
            f"[{config.reward_min:g}, {config.reward_max:g}]; give the range of this reward "
            "with `--reward-min` and `--reward-max`"
        )
    return rewards


def _tenants(
    population: Population, rewards: Floats, config: ReplayConfig
) -> tuple[TenantEvidence, ...]:
    of_scored = np.array([t.tenant_id for t in population.scored])
    of_all = np.array([t.tenant_id for t in population.rewarded])
    return tuple(
        TenantEvidence(
            tenant=str(name),
            trajectories=int((of_scored == name).sum()),
            mean_reward=float(rewards[of_all == name].mean()),
            evidenced=bool((of_scored == name).sum() >= config.min_tenant_trajectories),
        )
        for name in np.unique(of_all)
    )


def _unscored(
    population: Population, rewards: Floats, versions: tuple[str, str], config: ReplayConfig
) -> UnscoredComparison | None:
    if not population.unscored:
        return None
    unscored = np.zeros(len(rewards))
    unscored[len(population.scored) :] = 1.0
    by_candidate, by_baseline = (
        int(produced_by(population.unscored, version).sum()) for version in versions
    )
    return compare_unscored(
        rewards,
        unscored,
        intervals.task_codes([task_of(t) for t in population.rewarded]),
        produced=(by_candidate, by_baseline),
        config=config,
    )


def _histogram(log_weight: Floats) -> Histogram:
    log10 = log_weight / np.log(10.0)
    reach = max(0.5, float(np.ceil(np.abs(log10).max() * 2) / 2))
    counts, edges = np.histogram(log10, bins=HISTOGRAM_BINS, range=(-reach, reach))
    return Histogram(edges=tuple(float(e) for e in edges), counts=tuple(int(c) for c in counts))
