"""Weights above a limit are cut, and what is cut away counts among what the log lacks."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from atdp.replay.bounded_estimates import bounded_estimates
from atdp.replay.bounded_returns import all_scored
from atdp.replay.config import ReplayConfig
from atdp.replay.coverage import Coverage
from atdp.replay.diagnostics import WeightDiagnostics, diagnose
from atdp.replay.estimators import Floats, LoggedReturns
from atdp.replay.evaluation import Evaluation
from atdp.replay.intervals import Interval
from atdp.replay.release_gate import judge_evaluation
from atdp.replay.value_estimates import Estimate
from atdp.replay.weight_limit import with_weight_limit

CONFIG = ReplayConfig()


def log_of(weights: Floats, rewards: Floats, config: ReplayConfig = CONFIG) -> LoggedReturns:
    logged = LoggedReturns(
        log_ratio=np.log(weights)[:, None],
        reward=np.asarray(rewards, np.float64)[:, None],
        mask=np.ones((len(weights), 1), dtype=bool),
    )
    return with_weight_limit(logged, config)


def estimates(candidate: LoggedReturns, config: ReplayConfig = CONFIG) -> dict[str, Estimate]:
    size = len(candidate.mask)
    baseline = log_of(np.ones(size), candidate.returns, config)
    made = bounded_estimates(
        all_scored(candidate),
        all_scored(baseline),
        codes=np.arange(size),
        state_values=np.zeros((size, 1)),
        config=config,
    )
    return {each.name: each for each in made}


def one_large(size: int = 100) -> tuple[Floats, Floats]:
    """Return weights and rewards of a better candidate; one trajectory has a large weight."""
    rewards = np.arange(size, dtype=np.float64) % 2.0
    weights = 0.5 + rewards
    weights[0] = 2472.0
    return weights, rewards


def test_the_limit_grows_with_the_root_of_the_trajectories_and_is_at_least_one() -> None:
    limits = [log_of(np.ones(n), np.ones(n)).weight_limit for n in (1, 4, 100, 400)]
    assert limits == [1.0, 1.0, 5.0, 10.0]


@pytest.mark.parametrize(
    "options", [{"missing": "ignorable"}, {"estimator": "pdis"}, {"bound": "guaranteed"}]
)
def test_weights_stay_whole_where_no_bound_allows_for_what_is_cut(options: Any) -> None:
    assert log_of(*one_large(), ReplayConfig(**options)).weight_limit == math.inf


def test_one_trajectory_with_a_large_weight_does_not_hide_the_others() -> None:
    whole = diagnose(log_of(*one_large()).uncut)
    assert whole.ess < 1.2
    cut = diagnose(log_of(*one_large()))
    assert (cut.weight_limit, cut.cut) == (5.0, 1)
    assert cut.ess > 60
    assert cut.max_weight_share < CONFIG.max_weight_share
    difference = estimates(log_of(*one_large()))["cwpdis"].difference
    assert difference.lower > 0.0


def test_wrong_probabilities_in_a_tenth_of_the_log_are_not_hidden_by_the_cut() -> None:
    weights = np.where(np.arange(100) < 10, 30.0, 1.0)
    found = diagnose(log_of(weights, np.ones(100)))
    assert found.mean_weight == pytest.approx(1.4)
    assert found.whole_mean_weight == pytest.approx(3.9)
    thin = judged_thin(found)
    assert thin == {
        "weights_off_one": "the candidate's weights average 3.9 instead of 1 before large ones "
        "are cut: the log does not support this policy"
    }
    # One rare action alone is not enough to say so.
    assert judged_thin(diagnose(log_of(*one_large()))) == {}


def test_a_small_lack_that_matters_is_named() -> None:
    weights = diagnose(log_of(np.full(100, 0.997), np.ones(100)))
    near = Interval(estimate=0.1, lower=0.001, upper=0.2)
    made = replace(estimates(log_of(np.ones(100), np.ones(100)))["cwpdis"], difference=near)
    evaluation = replace(
        evaluation_of(weights),
        estimates=(replace(made, difference=replace(near, lower=-0.001)),),
        without_bounds=made,
    )
    _, reasons = judge_evaluation(evaluation, CONFIG)
    assert reasons[0].code == "missing_matters"
    assert reasons[0].text.startswith("the log lacks less than 1%")


def test_a_low_mean_says_how_many_weights_were_cut() -> None:
    weights = np.where(np.arange(100) < 1, 30.0, 0.4)
    text = judged_thin(diagnose(log_of(weights, np.ones(100))))["weights_off_one"]
    assert "average 0.446 instead of 1, 1 weight cut to 5: " in text


def test_weights_too_large_for_a_float_leave_the_means_finite() -> None:
    found = diagnose(log_of(np.array([np.exp(700.0)] * 2 + [1.0] * 98), np.ones(100)))
    assert math.isfinite(found.whole_mean_weight)
    assert math.isfinite(found.whole_mean_weight_stderr)


def evaluation_of(weights: WeightDiagnostics) -> Evaluation:
    """Return an evaluation of 100 tasks without estimates."""
    coverage = Coverage(
        trajectories=100, usable=100, set_aside={}, decisions=100, covered=100, uncovered={}
    )
    return Evaluation(
        coverage=coverage, tasks=100, candidate_weights=weights, baseline_weights=weights
    )


def judged_thin(weights: WeightDiagnostics) -> dict[str, str]:
    """Return the codes and texts for which the gate calls weights thin evidence."""
    _, reasons = judge_evaluation(evaluation_of(weights), CONFIG)
    return {each.code: each.text for each in reasons if "candidate" in each.text}


def test_unbiased_and_guaranteed_estimates_have_the_whole_weights() -> None:
    limited, whole = log_of(*one_large()), log_of(*one_large()).uncut
    for name in ("pdis", "dr", "betting", "bernstein"):
        assert estimates(limited)[name] == estimates(whole)[name]
    assert estimates(limited)["wis"] != estimates(whole)["wis"]


@given(st.data())
def test_the_bounds_of_a_cut_value_hold_for_any_policies_and_any_limit(data: st.DataObject) -> None:
    # Both policies choose among a few actions, so their values are sums over these.
    actions = data.draw(st.integers(2, 6))
    share = st.lists(st.floats(1e-6, 1.0), min_size=actions, max_size=actions)
    behaviour, candidate = (np.array(data.draw(share)) for _ in range(2))
    behaviour, candidate = behaviour / behaviour.sum(), candidate / candidate.sum()
    rewards = np.array(data.draw(st.lists(st.floats(0.0, 1.0), min_size=actions, max_size=actions)))
    limit = data.draw(st.floats(1.0, 100.0))
    weights = np.minimum(candidate / behaviour, limit)
    seen, value = float(behaviour @ weights), float(candidate @ rewards)
    least = float(behaviour @ (weights * rewards))
    assert least <= value + 1e-12
    assert value <= least + (1.0 - seen) + 1e-12


def test_weights_are_cut_at_every_decision() -> None:
    ratios = np.log([[30.0, 0.1, 1.0], [0.5, 0.5, 2.0], [1.0, 1.0, 1.0], [1.0, 1.0, 1.0]])
    logged = LoggedReturns(log_ratio=ratios, reward=np.zeros((4, 3)), mask=np.ones((4, 3), bool))
    cut = LoggedReturns(
        log_ratio=ratios, reward=np.zeros((4, 3)), mask=np.ones((4, 3), bool), weight_limit=2.0
    )
    assert np.exp(cut.cumulative_log_weight[0]) == pytest.approx([2.0, 2.0, 2.0])
    assert np.exp(cut.cumulative_log_weight[1]) == pytest.approx([0.5, 0.25, 0.5])
    assert np.exp(logged.cumulative_log_weight[0]) == pytest.approx([30.0, 3.0, 3.0])
    assert np.exp(cut.log_weight) == pytest.approx(np.exp(cut.cumulative_log_weight[:, -1]))
