import numpy as np
import pytest
from hypothesis import given, strategies as st

from atdp.replay.diagnostics import diagnose, effective_sample_size
from atdp.replay.estimators import LoggedReturns
from atdp.replay.intervals import (
    betting_lower,
    empirical_bernstein_lower,
    mean_by_task,
    task_codes,
)


@given(st.lists(st.floats(-50, 50), min_size=1, max_size=40))
def test_effective_sample_size_lies_between_one_and_n(logs: list[float]) -> None:
    assert 1 - 1e-9 <= effective_sample_size(np.array(logs)) <= len(logs) + 1e-9


def test_effective_sample_size_falls_with_the_horizon_as_the_closed_form_says() -> None:
    # ESS/n = (1 + chi2)^-T for i.i.d. steps: 0.372 at T = 50, chi2 = 0.02
    rng = np.random.default_rng(0)
    sigma = np.sqrt(np.log(1.02))
    ratio = rng.normal(-(sigma**2) / 2, sigma, size=(20_000, 50))
    share = effective_sample_size(ratio.sum(axis=1)) / 20_000
    assert share == pytest.approx(1.02**-50, abs=0.03)


def test_equal_weights_diagnose_as_on_policy() -> None:
    logged = LoggedReturns(
        log_ratio=np.zeros((8, 3)), reward=np.zeros((8, 3)), mask=np.ones((8, 3), dtype=bool)
    )
    diagnostics = diagnose(logged)
    assert (
        diagnostics.least_ess,
        diagnostics.max_weight_share,
        diagnostics.mean_weight,
    ) == (8.0, 0.125, 1.0)


def test_task_codes_follow_the_names_not_the_order() -> None:
    assert task_codes(["b", "a", "b"]).tolist() == [1, 0, 1]
    assert mean_by_task(np.array([1.0, 5.0, 3.0]), task_codes(["b", "a", "b"])).tolist() == [
        5.0,
        2.0,
    ]


def test_guaranteed_bounds_miss_no_more_often_than_they_promise() -> None:
    rng = np.random.default_rng(7)
    missed_betting = missed_bernstein = 0
    runs, truth = 400, 0.2
    for run in range(runs):
        # a heavy-tailed weight times reward: 10 with probability 0.02, mean 0.2
        values = np.where(rng.uniform(size=60) < 0.02, 10.0, 0.0)
        missed_betting += betting_lower(values, alpha=0.05, seed=run) > truth
        missed_bernstein += empirical_bernstein_lower(values, upper=10.0, alpha=0.05) > truth
    assert missed_betting <= 0.05 * runs
    assert missed_bernstein <= 0.05 * runs


def test_guaranteed_bounds_tighten_with_data_and_betting_is_tighter() -> None:
    rng = np.random.default_rng(3)
    few, many = (rng.uniform(0.3, 0.9, size=n) for n in (40, 2000))
    for values in (few, many):
        assert empirical_bernstein_lower(values, upper=1.0, alpha=0.05) <= betting_lower(
            values, alpha=0.05
        )
        assert betting_lower(values, alpha=0.05) < values.mean()
    assert betting_lower(many, alpha=0.05) > 0.57
    assert betting_lower(many, alpha=0.05) > betting_lower(few, alpha=0.05)


def test_no_data_gives_no_bound() -> None:
    assert betting_lower(np.array([]), alpha=0.05) == 0.0
    assert betting_lower(np.zeros(50), alpha=0.05) == 0.0
    assert betting_lower(np.array([np.inf, 1.0]), alpha=0.05) == 0.0
    assert empirical_bernstein_lower(np.array([0.5]), upper=1.0, alpha=0.05) == 0.0
