import numpy as np
import pytest

from atdp.replay.estimators import Floats, LoggedReturns, cwpdis_terms, weighted_dr_terms
from atdp.replay.intervals import TaskCodes
from atdp.replay.paired_intervals import paired_intervals
from atdp.replay.state_values import cross_fitted_values, state_features
from atdp.replay.testing import BigramPolicy, LogPlan

TASKS, ATTEMPTS, HORIZON = 60, 4, 3
CODES: TaskCodes = np.repeat(np.arange(TASKS), ATTEMPTS)


def log_of(difficulty: Floats, *, seed: int = 0, shift: float = 0.5) -> LoggedReturns:
    """Return trajectories whose reward depends on the difficulty of their task only."""
    rng = np.random.default_rng(seed)
    shape = (TASKS * ATTEMPTS, HORIZON)
    reward = np.zeros(shape)
    reward[:, -1] = rng.random(shape[0]) < difficulty[CODES]
    return LoggedReturns(
        log_ratio=rng.normal(-(shift**2) / 2, shift, shape),
        reward=reward,
        mask=np.ones(shape, dtype=bool),
    )


def features_of(difficulty: Floats) -> Floats:
    return np.repeat(difficulty[CODES][:, None], HORIZON, axis=1)[:, :, None]


def test_a_feature_that_predicts_the_reward_has_skill_and_narrows_the_interval() -> None:
    difficulty = np.random.default_rng(1).beta(0.3, 0.3, TASKS)
    logged = log_of(difficulty)
    fitted = cross_fitted_values(features_of(difficulty), logged, CODES)
    assert fitted.used
    assert fitted.skill > 0.3
    same = LoggedReturns(
        log_ratio=np.zeros_like(logged.log_ratio), reward=logged.reward, mask=logged.mask
    )
    widths = []
    for terms in (cwpdis_terms, lambda x: weighted_dr_terms(x, fitted.values, fitted.values)):
        difference = paired_intervals(terms(logged), terms(same), CODES, alpha=0.05).difference
        assert difference.lower < 0.0 < difference.upper
        widths.append(difference.upper - difference.lower)
    assert widths[1] < 0.85 * widths[0]


def test_a_feature_that_predicts_nothing_is_not_used() -> None:
    rng = np.random.default_rng(2)
    logged = log_of(rng.random(TASKS))
    fitted = cross_fitted_values(features_of(rng.random(TASKS)), logged, CODES)
    assert not fitted.used
    assert not fitted.values.any()


def test_the_values_of_a_task_do_not_depend_on_its_own_rewards() -> None:
    difficulty = np.random.default_rng(3).beta(0.3, 0.3, TASKS)
    logged = log_of(difficulty)
    flipped = logged.reward.copy()
    flipped[CODES == 7, -1] = 1.0 - flipped[CODES == 7, -1]
    other = LoggedReturns(log_ratio=logged.log_ratio, reward=flipped, mask=logged.mask)
    before, after = (
        cross_fitted_values(features_of(difficulty), log, CODES).values for log in (logged, other)
    )
    assert before[CODES == 7] == pytest.approx(after[CODES == 7], abs=0.0)
    assert np.abs(before - after).max() > 0.0


def test_equal_rewards_leave_nothing_to_predict() -> None:
    logged = log_of(np.ones(TASKS))
    assert not cross_fitted_values(features_of(np.arange(TASKS) / TASKS), logged, CODES).used


def test_one_task_cannot_be_predicted_from_others() -> None:
    logged = log_of(np.full(TASKS, 0.5))
    fitted = cross_fitted_values(
        features_of(np.arange(TASKS) / TASKS), logged, np.zeros(len(CODES), dtype=np.int64)
    )
    assert not fitted.used


def test_features_know_what_precedes_the_decision_and_nothing_of_it() -> None:
    log = BigramPolicy.preferring(0, strength=1.0).log(LogPlan(tasks=2, attempts=1, turns=2))
    features = state_features(log, horizon=3)
    first, second = log[0].generations
    assert second.prompt_token_ids is not None
    assert first.output_logprobs is not None
    assert features.shape == (2, 3, 4)
    assert features[0, 0] == pytest.approx([0.0, np.log(2.0), 0.0, 0.0])
    assert features[0, 1] == pytest.approx(
        [1.0, np.log1p(len(second.prompt_token_ids)), np.log(3.0), np.mean(first.output_logprobs)]
    )
    assert not features[:, 2].any()
