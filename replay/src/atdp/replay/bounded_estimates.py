"""Estimates over scored and unscored trajectories, with bounds that hold for any unknown reward.

Rewards are unknown in two places: in trajectories without a valid weight
(`atdp.replay.bounded_returns`), and in the share of a policy's behaviour that the log does not hold
(`atdp.replay.unseen_share`).

The estimate itself takes the logged rewards of the unscored trajectories, as if both policies did
there what the log did. A lower bound of the difference takes the lowest rewards for the candidate
and the highest for the baseline, an upper bound the opposite (`atdp.replay.bounded_returns`).
"""

from dataclasses import dataclass

from atdp.replay.bounded_returns import BoundedReturns
from atdp.replay.config import ReplayConfig
from atdp.replay.estimators import Floats, LoggedReturns
from atdp.replay.intervals import Interval, TaskCodes
from atdp.replay.paired_intervals import paired_intervals
from atdp.replay.unseen_share import unseen_share, with_unseen_share
from atdp.replay.value_estimates import Estimate, guaranteed_estimates, ratio_estimates
from atdp.replay.weighted_rewards import WeightedRewards


def bounded_estimates(
    candidate: BoundedReturns,
    baseline: BoundedReturns,
    *,
    codes: TaskCodes,
    state_values: Floats,
    config: ReplayConfig,
) -> tuple[Estimate, ...]:
    """Return the estimates of all estimators.

    `codes`, shape (n,), are the tasks of the rows, `state_values`, shape (n, T), those of
    `atdp.replay.state_values`.
    """
    made = _over_unscored(
        candidate, baseline, codes=codes, state_values=state_values, config=config
    )
    if config.missing != "worst_case":
        return made
    shares = {
        "candidate": unseen_share(candidate.logged, codes, alpha=config.spent_alpha),
        "baseline": unseen_share(baseline.logged, codes, alpha=config.spent_alpha),
    }
    return tuple(with_unseen_share(estimate, **shares, config=config) for estimate in made)


def _over_unscored(
    candidate: BoundedReturns,
    baseline: BoundedReturns,
    *,
    codes: TaskCodes,
    state_values: Floats,
    config: ReplayConfig,
) -> tuple[Estimate, ...]:
    """Return the estimates with bounds for the unscored trajectories."""

    def estimates(of_candidate: LoggedReturns, of_baseline: LoggedReturns) -> list[Estimate]:
        return [
            *ratio_estimates(
                of_candidate, of_baseline, codes=codes, state_values=state_values, config=config
            ),
            *guaranteed_estimates(of_candidate, of_baseline, codes=codes, config=config),
        ]

    logged = estimates(candidate.logged, baseline.logged)
    if candidate.logged is candidate.scored:
        return tuple(logged)
    lowest = estimates(candidate.low, baseline.high)
    highest = estimates(candidate.high, baseline.low)
    return tuple(map(_with_bounds, logged, lowest, highest))


def _with_bounds(logged: Estimate, lowest: Estimate, highest: Estimate) -> Estimate:
    """Return an estimate with the bounds of its two extreme variants.

    In the lowest one the candidate has its lowest rewards and the baseline its highest.
    """
    return Estimate(
        name=logged.name,
        title=logged.title,
        guaranteed=logged.guaranteed,
        candidate=Interval(
            estimate=logged.candidate.estimate,
            lower=lowest.candidate.lower,
            upper=highest.candidate.upper,
        ),
        baseline=Interval(
            estimate=logged.baseline.estimate,
            lower=highest.baseline.lower,
            upper=lowest.baseline.upper,
        ),
        difference=Interval(
            estimate=logged.difference.estimate,
            lower=lowest.difference.lower,
            upper=highest.difference.upper,
        ),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class UnscoredComparison:
    """Mean rewards of the unscored and the scored trajectories, and unscored minus scored.

    `by_candidate` and `by_baseline` count the unscored trajectories that the policy itself
    produced, so that its reward there is known.
    """

    trajectories: int
    by_candidate: int
    by_baseline: int
    unscored_reward: Interval
    scored_reward: Interval
    difference: Interval


def compare_unscored(
    rewards: Floats,
    unscored: Floats,
    codes: TaskCodes,
    *,
    produced: tuple[int, int],
    config: ReplayConfig,
) -> UnscoredComparison:
    """Compare mean rewards, with intervals clustered by task.

    `rewards` and `unscored` (1 for an unscored trajectory, else 0) have shape (n,). `produced`
    counts the unscored trajectories of candidate and baseline.
    """
    chosen, others = unscored[:, None], 1.0 - unscored[:, None]
    paired = paired_intervals(
        (rewards[:, None] * chosen, chosen),
        (rewards[:, None] * others, others),
        codes,
        alpha=config.spent_alpha,
        rewards=WeightedRewards(
            rewards=rewards,
            candidate=unscored,
            baseline=1.0 - unscored,
            lowest=config.reward_min,
            highest=config.reward_max,
        ),
    )
    return UnscoredComparison(
        trajectories=int(unscored.sum()),
        by_candidate=produced[0],
        by_baseline=produced[1],
        unscored_reward=paired.candidate,
        scored_reward=paired.baseline,
        difference=paired.difference,
    )
