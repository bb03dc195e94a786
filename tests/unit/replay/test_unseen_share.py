"""The share of a policy's behaviour that a log lacks: bounds hold whatever happens there."""

import numpy as np
import pytest
from scipy import stats

from atdp.replay.bounded_estimates import bounded_estimates
from atdp.replay.bounded_returns import BoundedReturns, all_scored
from atdp.replay.config import MissingModel, ReplayConfig
from atdp.replay.estimators import LoggedReturns
from atdp.replay.intervals import Interval
from atdp.replay.unseen_share import UnseenShare, unseen_share, with_unseen_share
from atdp.replay.value_estimates import Estimate

RARE = 0.002
"""Probability under the behaviour policy of an answer that the candidate gives more often."""
OFTEN = 0.15
RIGHT = 0.8
"""Success of every other answer; the rare one is always wrong."""


def returns(log_ratio: np.ndarray, reward: np.ndarray) -> BoundedReturns:
    logged = LoggedReturns(
        log_ratio=log_ratio[:, None],
        reward=reward[:, None],
        mask=np.ones((len(reward), 1), dtype=bool),
    )
    return BoundedReturns(scored=logged, low=logged, logged=logged, high=logged)


def estimate(seed: int, missing: MissingModel, size: int = 300) -> Estimate:
    """Return the decisive estimate of a log in which the rare answer mostly does not occur."""
    rng = np.random.default_rng(seed)
    rare = rng.random(size) < RARE
    reward = np.where(rare, 0.0, rng.random(size) < RIGHT)
    ratio = np.where(rare, OFTEN / RARE, (1 - OFTEN) / (1 - RARE))
    made = bounded_estimates(
        returns(np.log(ratio), reward),
        returns(np.zeros(size), reward),
        codes=np.arange(size),
        state_values=np.zeros((size, 1)),
        config=ReplayConfig(missing=missing),
    )
    return next(each for each in made if each.name == "cwpdis")


@pytest.mark.parametrize(
    ("missing", "least", "most"), [("worst_case", 0.0, 0.1), ("ignorable", 0.4, 1.0)]
)
def test_new_mistakes_that_the_log_lacks_stay_inside_the_bounds(
    missing: MissingModel, least: float, most: float
) -> None:
    # A log with one rare answer has a weight that dominates, so the gate refuses it; some of those
    # are the misses that are allowed here.
    truth = RIGHT * (1 - OFTEN) - RIGHT * (1 - RARE)
    made = [estimate(seed, missing).difference for seed in range(60)]
    missed = float(np.mean([not each.lower <= truth <= each.upper for each in made]))
    assert least <= missed <= most


def share_of(weights: list[float], attempts: int = 1, alpha: float = 0.05) -> float:
    made = returns(np.log(weights), np.ones(len(weights)))
    return unseen_share(made.scored, np.arange(len(weights)) // attempts, alpha=alpha).share


def test_weights_that_average_one_or_more_lack_nothing() -> None:
    assert share_of([0.5, 1.5, 1.0, 1.0]) == 0.0
    assert share_of([2.0, 2.0, 1.0, 1.0]) == 0.0


def test_a_shortage_counts_with_its_upper_bound_and_at_most_twice() -> None:
    assert share_of([0.1, 1.4, 1.0, 1.1]) == pytest.approx(0.2)
    weights = [0.7, 0.9, 0.8, 0.8] * 5
    error = np.std(weights, ddof=1) / np.sqrt(20)
    for alpha in (0.05, 0.01):
        expected = 0.2 + stats.t.isf(alpha, 19) * error
        assert share_of(weights, alpha=alpha) == pytest.approx(expected)
    # Attempts that agree are no further evidence.
    assert share_of([w for w in weights for _ in range(3)], attempts=3) == pytest.approx(
        share_of(weights)
    )
    assert share_of([1e-9, 1e-9, 1e-9, 0.2]) == 1.0


def widened(name: str, **config: float) -> Estimate:
    """Return an estimate with bounds for half of the candidate and a tenth of the baseline."""
    wide = Interval(estimate=0.0, lower=-0.9, upper=0.9)
    value = Interval(estimate=0.5, lower=0.4, upper=0.6)
    return with_unseen_share(
        Estimate(
            name=name, title="", guaranteed=False, candidate=value, baseline=value, difference=wide
        ),
        candidate=UnseenShare(share=0.5, credited=0.1),
        baseline=UnseenShare(share=0.1, credited=0.05),
        config=ReplayConfig(**config),  # type: ignore[arg-type]
    )


def test_what_is_credited_to_the_share_gives_way_to_the_lowest_and_the_highest_reward() -> None:
    assert widened("cwpdis").candidate == Interval(estimate=0.5, lower=0.4 - 0.1, upper=0.6 + 0.4)
    assert widened("wis").candidate == Interval(estimate=0.5, lower=0.4 - 0.25, upper=0.6 + 0.25)
    lower = widened("cwpdis", reward_min=-1.0).candidate.lower
    assert lower == pytest.approx(0.4 - 0.1 - 0.5)
    assert widened("pdis").candidate == Interval(estimate=0.5, lower=0.4, upper=0.6)


def test_the_bounds_of_a_difference_stay_in_its_range() -> None:
    difference = widened("cwpdis").difference
    assert (difference.lower, difference.upper) == (-1.0, 1.0)


def early_and_late(later: float) -> LoggedReturns:
    """Return a log whose first half ends with reward 1, and goes on without one in the other."""
    early = np.arange(40) < 20
    return LoggedReturns(
        log_ratio=np.stack([np.zeros(40), np.where(early, 0.0, np.log(later))], axis=1),
        reward=np.stack([early, np.zeros(40)], axis=1),
        mask=np.stack([np.ones(40, dtype=bool), ~early], axis=1),
    )


def test_a_reward_before_what_the_log_lacks_is_not_credited_to_it() -> None:
    unseen = unseen_share(early_and_late(0.1), np.arange(40), alpha=0.025)
    assert unseen.share >= 0.45
    assert unseen.credited == 0.0
    same = unseen_share(early_and_late(1.0), np.arange(40), alpha=0.025)
    assert same == UnseenShare(share=0.0, credited=0.0)


def test_successes_that_the_log_lacks_late_stay_inside_the_bounds_beside_early_ones() -> None:
    # The candidate fails in 1 of 10 of the second decisions, the log in all: 0.5 + 0.5 * 0.9.
    late, codes = early_and_late(0.1), np.arange(40)
    made = bounded_estimates(
        all_scored(late),
        all_scored(early_and_late(1.0)),
        codes=codes,
        state_values=np.zeros((40, 2)),
        config=ReplayConfig(),
    )
    for name in ("cwpdis", "wis", "wdr"):
        estimate = next(each for each in made if each.name == name)
        assert estimate.candidate.upper >= 0.95
        assert estimate.difference.upper >= 0.45
