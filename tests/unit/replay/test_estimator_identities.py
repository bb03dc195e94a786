import numpy as np
import pytest
from hypothesis import given, strategies as st

from atdp.replay.errors import ReplayDataError
from atdp.replay.estimators import (
    LoggedReturns,
    cwpdis_terms,
    dr_terms,
    pdis_terms,
    ratio_of_sums,
    trajectory_weights,
    weighted_dr_terms,
    wis_terms,
)


def tis(logged: LoggedReturns) -> float:
    return float((trajectory_weights(logged) * logged.returns).mean())


def pdis(logged: LoggedReturns) -> float:
    return ratio_of_sums(*pdis_terms(logged))


def wis(logged: LoggedReturns) -> float:
    return ratio_of_sums(*wis_terms(logged))


def cwpdis(logged: LoggedReturns) -> float:
    return ratio_of_sums(*cwpdis_terms(logged))


@st.composite
def logged_returns(draw: st.DrawFn, *, on_policy: bool = False) -> LoggedReturns:
    lengths = draw(st.lists(st.integers(1, 5), min_size=1, max_size=12))
    horizon = max(lengths)
    mask = np.arange(horizon)[None, :] < np.array(lengths)[:, None]
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    scale = 0.0 if on_policy else draw(st.floats(0.01, 2.0))
    return LoggedReturns(
        log_ratio=np.where(mask, rng.normal(0, scale, mask.shape), 0.0),
        reward=np.where(mask, rng.uniform(-1, 2, mask.shape), 0.0),
        mask=mask,
        gamma=draw(st.sampled_from([1.0, 0.9])),
    )


@given(logged_returns(on_policy=True))
def test_every_estimator_gives_the_sample_mean_on_policy(logged: LoggedReturns) -> None:
    for estimate in (tis, wis, pdis, cwpdis):
        assert estimate(logged) == pytest.approx(logged.returns.mean(), abs=1e-12)


@given(logged_returns(on_policy=True), st.floats(-5, 5))
def test_state_values_cancel_on_policy(logged: LoggedReturns, value: float) -> None:
    v = np.where(logged.mask, value, 0.0)
    for terms in (dr_terms, weighted_dr_terms):
        assert ratio_of_sums(*terms(logged, v, v)) == pytest.approx(logged.returns.mean(), abs=1e-9)


@given(logged_returns())
def test_doubly_robust_without_values_is_per_decision(logged: LoggedReturns) -> None:
    nothing = np.zeros(logged.mask.shape)
    assert ratio_of_sums(*dr_terms(logged, nothing, nothing)) == pytest.approx(
        pdis(logged), rel=1e-12, abs=1e-12
    )
    assert ratio_of_sums(*weighted_dr_terms(logged, nothing, nothing)) == pytest.approx(
        cwpdis(logged), rel=1e-12, abs=1e-12
    )


@given(logged_returns())
def test_true_values_of_a_deterministic_environment_leave_no_variance(
    logged: LoggedReturns,
) -> None:
    # Each decision is rewarded with a constant, so that Q and V are the constants still to come.
    reward = np.broadcast_to(1.0 + np.arange(logged.mask.shape[1]), logged.mask.shape)
    whole = LoggedReturns(log_ratio=logged.log_ratio, reward=reward, mask=np.ones_like(logged.mask))
    to_go = reward[:, ::-1].cumsum(axis=1)[:, ::-1]
    values = dr_terms(whole, to_go, to_go)[0]
    assert np.ptp(values) <= 1e-9 * max(1.0, float(np.exp(whole.cumulative_log_weight).max()))


@given(logged_returns())
def test_weighted_estimate_stays_within_the_returns(logged: LoggedReturns) -> None:
    assert logged.returns.min() - 1e-9 <= wis(logged) <= logged.returns.max() + 1e-9


@given(logged_returns(), st.integers(1, 4))
def test_more_padding_changes_nothing(logged: LoggedReturns, extra: int) -> None:
    pad = ((0, 0), (0, extra))
    padded = LoggedReturns(
        log_ratio=np.pad(logged.log_ratio, pad),
        reward=np.pad(logged.reward, pad),
        mask=np.pad(logged.mask, pad),
        gamma=logged.gamma,
    )
    for estimate in (tis, wis, pdis, cwpdis):
        assert estimate(padded) == pytest.approx(estimate(logged), rel=1e-12, abs=1e-12)


@given(logged_returns())
def test_padded_per_decision_equals_the_sum_over_each_trajectory(logged: LoggedReturns) -> None:
    total = 0.0
    for row in range(logged.mask.shape[0]):
        weight = 1.0
        for t in range(int(logged.mask[row].sum())):
            weight *= float(np.exp(logged.log_ratio[row, t]))
            total += logged.gamma**t * weight * float(logged.reward[row, t])
    assert pdis(logged) == pytest.approx(total / logged.mask.shape[0], rel=1e-9, abs=1e-12)


@given(logged_returns(), st.floats(-3, 3))
def test_a_constant_terminal_reward_is_its_own_estimate(
    logged: LoggedReturns, constant: float
) -> None:
    reward = np.zeros(logged.mask.shape)
    reward[:, 0] = constant
    same = LoggedReturns(log_ratio=logged.log_ratio, reward=reward, mask=logged.mask)
    assert cwpdis(same) == pytest.approx(constant, abs=1e-9)
    assert wis(same) == pytest.approx(constant, abs=1e-9)


def test_weighted_estimates_survive_weights_that_overflow() -> None:
    logged = LoggedReturns(
        log_ratio=np.array([[2000.0], [-2000.0]]),
        reward=np.array([[1.0], [0.0]]),
        mask=np.ones((2, 1), dtype=bool),
    )
    assert cwpdis(logged) == 1.0
    assert wis(logged) == 1.0


@pytest.mark.parametrize(
    ("log_ratio", "reward", "mask", "gamma"),
    [
        ([[0.0, 1.0]], [[0.0, 0.0]], [[True, False]], 1.0),
        ([[0.0, 0.0]], [[0.0, 0.0]], [[False, True]], 1.0),
        ([[np.nan]], [[0.0]], [[True]], 1.0),
        ([[0.0]], [[0.0]], [[True]], 0.0),
        ([[0.0]], [[0.0, 1.0]], [[True]], 1.0),
    ],
    ids=["ratio-in-padding", "hole", "nan", "gamma", "shapes"],
)
def test_arrays_that_mean_nothing_are_refused(
    log_ratio: list[list[float]], reward: list[list[float]], mask: list[list[bool]], gamma: float
) -> None:
    with pytest.raises(ReplayDataError):
        LoggedReturns(
            log_ratio=np.array(log_ratio), reward=np.array(reward), mask=np.array(mask), gamma=gamma
        )
