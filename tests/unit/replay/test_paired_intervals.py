"""Intervals in corners and in general; `test_verdict_simulation.py` measures their error rates."""

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from atdp.replay.estimators import Floats, Terms
from atdp.replay.intervals import Interval
from atdp.replay.paired_intervals import PairedIntervals, paired_intervals
from atdp.replay.weighted_rewards import WeightedRewards


def terms_of(weights: Floats, rewards: Floats) -> Terms:
    return (weights * rewards)[:, None], weights[:, None]


def intervals_of(
    rewards: Floats, weights: Floats, *, attempts: int = 1, alpha: float = 0.05
) -> PairedIntervals:
    """Compare a candidate of these weights with the policy that acted."""
    ones = np.ones_like(weights)
    return paired_intervals(
        terms_of(weights, rewards),
        terms_of(ones, rewards),
        np.arange(rewards.size) // attempts,
        alpha=alpha,
        rewards=WeightedRewards(
            rewards=rewards, candidate=weights, baseline=ones, lowest=0.0, highest=1.0
        ),
    )


def width(interval: Interval) -> float:
    return interval.upper - interval.lower


def log_weights(n: int, *, seed: int = 0) -> Floats:
    return np.exp(np.random.default_rng(seed).normal(-0.25, 0.7, n))


def test_equal_weights_give_nearly_the_interval_of_student() -> None:
    rewards = np.random.default_rng(0).random(400)
    interval = intervals_of(rewards, np.ones(400)).candidate
    error = 1.6487 * rewards.std(ddof=1) / 20.0
    assert interval.estimate == pytest.approx(rewards.mean())
    assert (width(interval) / 2.0) == pytest.approx(error, rel=0.03)


@pytest.mark.parametrize("reward", [0.0, 1.0])
def test_rewards_that_are_all_equal_leave_the_difference_uncertain(reward: float) -> None:
    paired = intervals_of(np.full(60, reward), log_weights(60))
    assert paired.difference.estimate == pytest.approx(0.0, abs=1e-12)
    assert paired.difference.lower < -0.01
    assert paired.difference.upper > 0.01
    assert width(paired.candidate) > 0.03
    assert 0.0 <= paired.candidate.lower <= paired.candidate.upper <= 1.0


def test_a_policy_that_is_equal_in_the_whole_log_may_differ_elsewhere() -> None:
    rewards = (np.arange(60) % 2).astype(float)
    difference = intervals_of(rewards, np.ones(60)).difference
    assert (difference.estimate, difference.upper) == (0.0, -difference.lower)
    # with probability 0.95, a task that is in 4.9 % of the cases is among 60
    assert (1.0 - difference.upper) ** 60 == pytest.approx(0.05)


def test_attempts_at_the_same_task_that_agree_count_as_one() -> None:
    rewards = np.random.default_rng(1).integers(0, 2, 50).astype(float)
    once, repeated = (
        intervals_of(np.repeat(rewards, k), np.ones(50 * k), attempts=k).candidate for k in (1, 6)
    )
    assert width(repeated) == pytest.approx(width(once), rel=1e-6)


def test_a_stricter_level_is_wider_and_stays_in_the_range_of_the_rewards() -> None:
    rewards = np.random.default_rng(2).integers(0, 2, 40).astype(float)
    widths = [
        width(intervals_of(rewards, log_weights(40), alpha=alpha).difference)
        for alpha in (0.1, 0.05, 0.001)
    ]
    assert widths == sorted(widths)
    certain = intervals_of(rewards, log_weights(40), alpha=1e-12)
    assert (certain.candidate.lower, certain.candidate.upper) == (0.0, 1.0)


def test_one_task_has_no_interval_but_the_range() -> None:
    paired = intervals_of(np.array([0.0, 1.0]), np.ones(2), attempts=2)
    assert (paired.difference.lower, paired.difference.upper) == (-1.0, 1.0)
    ones = np.ones((2, 1))
    unlimited = paired_intervals((ones, ones), (ones, ones), np.zeros(2, dtype=np.int64), alpha=0.1)
    assert (unlimited.difference.lower, unlimited.difference.upper) == (-math.inf, math.inf)


def test_a_weight_that_one_task_holds_alone_has_no_interval_but_the_range() -> None:
    weights = np.zeros(30)
    weights[3] = 1.0
    paired = intervals_of(np.full(30, 0.5), weights)
    assert (paired.candidate.lower, paired.candidate.upper) == (0.0, 1.0)


def test_without_rewards_the_span_bounds_what_no_task_has_shown() -> None:
    ones, halves = np.ones((20, 1)), np.full((20, 1), 0.5)
    paired = paired_intervals((halves, ones), (halves, ones), np.arange(20), alpha=0.05, span=1.0)
    assert paired.difference.upper == pytest.approx(1.0 - 0.05 ** (1.0 / 20.0))


@given(st.integers(0, 2**32 - 1), st.floats(0.1, 10.0))
def test_the_scale_of_the_weights_and_the_order_of_the_rows_change_nothing(
    seed: int, scale: float
) -> None:
    rng = np.random.default_rng(seed)
    rewards, weights = rng.random(24), rng.uniform(0.2, 3.0, 24)
    order = rng.permutation(24)
    first = intervals_of(rewards, weights).difference
    for other in (
        intervals_of(rewards, weights * scale),
        intervals_of(rewards[order], weights[order]),
    ):
        assert other.difference.lower == pytest.approx(first.lower, abs=1e-9)
        assert other.difference.upper == pytest.approx(first.upper, abs=1e-9)
    assert first.lower <= first.estimate <= first.upper
