"""Reference numbers from elsewhere: SCOPE-RL 0.2.1, enumerated ModelWin, the analytic bandit."""

import itertools

import numpy as np
import pytest

from atdp.replay.estimators import (
    Floats,
    LoggedReturns,
    cwpdis_terms,
    dr_terms,
    pdis_terms,
    ratio_of_sums,
    trajectory_weights,
    weighted_dr_terms,
    wis_terms,
)

ACTIONS = np.array([[1, 1, 1], [1, 1, 1], [1, 0, 0], [0, 0, 1], [1, 0, 0], [1, 0, 1]])
REWARDS = np.array(
    [
        [0.38, 1.49, 1.357],
        [1.105, 0.07, 0.971],
        [1.695, -0.344, 0.542],
        [-0.901, -0.29, -0.842],
        [0.765, -0.267, 1.271],
        [1.157, 0.813, -1.517],
    ]
)
BEHAVIOUR = np.array(
    [
        [0.667, 0.552, 0.506],
        [0.499, 0.399, 0.305],
        [0.377, 0.577, 0.38],
        [0.448, 0.301, 0.632],
        [0.362, 0.407, 0.652],
        [0.504, 0.639, 0.556],
    ]
)
TARGET_OF_ZERO = np.array(
    [
        [0.645, 0.525, 0.723],
        [0.559, 0.433, 0.29],
        [0.428, 0.554, 0.583],
        [0.29, 0.344, 0.258],
        [0.329, 0.38, 0.597],
        [0.707, 0.742, 0.287],
    ]
)
ACTION_VALUES = np.array(  # of the actions 0 and 1 at each step
    [
        [[0.786, 0.848], [1.176, 0.94], [0.901, 0.443]],
        [[0.994, 0.778], [1.583, 1.327], [0.988, 1.334]],
        [[0.83, 1.526], [0.997, 1.292], [0.355, 1.173]],
        [[0.156, -0.018], [0.848, 0.55], [1.082, 2.122]],
        [[0.584, 0.688], [1.103, 1.247], [0.912, 0.897]],
        [[1.351, 1.26], [0.483, 0.96], [1.018, 0.473]],
    ]
)
Q = np.take_along_axis(ACTION_VALUES, ACTIONS[:, :, None], axis=2)[:, :, 0]
V = TARGET_OF_ZERO * ACTION_VALUES[:, :, 0] + (1.0 - TARGET_OF_ZERO) * ACTION_VALUES[:, :, 1]
TARGET = np.where(ACTIONS == 0, TARGET_OF_ZERO, 1.0 - TARGET_OF_ZERO)
SCOPE = LoggedReturns(
    log_ratio=np.log(TARGET) - np.log(BEHAVIOUR),
    reward=REWARDS,
    mask=np.ones((6, 3), dtype=bool),
    gamma=0.95,
)


def tis_values(logged: LoggedReturns) -> Floats:
    """Return the terms whose mean is TIS, shape (n,)."""
    return trajectory_weights(logged) * logged.returns


@pytest.mark.parametrize(
    ("value", "expected", "tolerance"),
    [
        (tis_values(SCOPE).mean(), 2.054394919840327, 1e-12),
        (ratio_of_sums(*pdis_terms(SCOPE)), 1.554500637814533, 1e-12),
        (ratio_of_sums(*wis_terms(SCOPE)), 1.412263819929664, 1e-8),
        (ratio_of_sums(*cwpdis_terms(SCOPE)), 1.3461437158087846, 1e-8),
        (V[:, 0].mean(), 0.8242411666666666, 1e-12),
        (ratio_of_sums(*dr_terms(SCOPE, Q, V)), 1.1369899419151646, 1e-12),
        (ratio_of_sums(*weighted_dr_terms(SCOPE, Q, V)), 1.3316033473292557, 1e-8),
    ],
    ids=["TIS", "PDIS", "SNTIS", "SNPDIS", "DM", "DR", "SNDR"],
)
def test_scope_rl_reference_case_is_reproduced(
    value: float, expected: float, tolerance: float
) -> None:
    assert value == pytest.approx(expected, abs=tolerance)


def model_win() -> tuple[LoggedReturns, Floats, Floats, Floats]:
    """Return all 64 trajectories of ModelWin at horizon 4.

    The other values are their behaviour probabilities, and the true Q of their actions and V of
    their states under the target policy.
    """
    behaviour, target = np.array([0.73, 0.27]), np.array([0.27, 0.73])
    to_win = np.array([0.4, 0.6])  # P(s1 | s0, a)
    visit = target @ (2 * to_win - 1)  # expected reward of one visit to s0
    rows = []
    for a0, win0, a1, a2, win2, a3 in itertools.product((0, 1), repeat=6):
        first = to_win[a0] if win0 else 1 - to_win[a0]
        third = to_win[a2] if win2 else 1 - to_win[a2]
        actions = [a0, a1, a2, a3]
        rows.append(
            (actions, [2 * win0 - 1, 0, 2 * win2 - 1, 0], behaviour[actions].prod() * first * third)
        )
    actions_all = np.array([r[0] for r in rows])
    rewards = np.array([r[1] for r in rows], dtype=float)
    probability = np.array([r[2] for r in rows])
    logged = LoggedReturns(
        log_ratio=np.log(target[actions_all]) - np.log(behaviour[actions_all]),
        reward=rewards,
        mask=np.ones((64, 4), dtype=bool),
    )
    q = np.zeros((64, 4))
    q[:, 0] = 2 * to_win[actions_all[:, 0]] - 1 + visit
    q[:, 1] = visit
    q[:, 2] = 2 * to_win[actions_all[:, 2]] - 1
    v = np.broadcast_to(visit * np.array([2, 1, 1, 0]), (64, 4))
    return logged, probability, q, v


def test_model_win_enumerated_gives_the_exact_value_and_variances() -> None:
    logged, p, q, v = model_win()
    nothing = np.zeros_like(q)
    assert p.sum() == pytest.approx(1.0, abs=1e-12)
    for values, variance in (
        (tis_values(logged), 38.148412),
        (pdis_terms(logged)[0][:, 0], 11.024339),
        (dr_terms(logged, nothing, nothing)[0][:, 0], 11.024339),
        (dr_terms(logged, q, v)[0][:, 0], 10.549668),
    ):
        mean = float(p @ values)
        assert mean == pytest.approx(0.184, abs=1e-12)
        assert float(p @ (values - mean) ** 2) == pytest.approx(variance, abs=1e-6)


def test_bandit_variance_matches_the_closed_form() -> None:
    logged = LoggedReturns(
        log_ratio=np.log(np.array([[0.88 / 0.12], [0.12 / 0.88]])),
        reward=np.array([[1.0], [-1.0]]),
        mask=np.ones((2, 1), dtype=bool),
    )
    p = np.array([0.12, 0.88])
    values = tis_values(logged)
    assert float(p @ values) == pytest.approx(0.76, abs=1e-12)
    assert float(p @ (values - 0.76) ** 2) == pytest.approx(5.892097, abs=1e-6)


def test_one_example_of_the_vw_estimators_is_reproduced() -> None:
    # probability 0.3 in the log, reward 1, probability 0.6 under the policy
    example = LoggedReturns(
        log_ratio=np.log([[0.6 / 0.3]]), reward=np.ones((1, 1)), mask=np.ones((1, 1), dtype=bool)
    )
    assert ratio_of_sums(*pdis_terms(example)) == pytest.approx(2.0, abs=1e-12)
    assert ratio_of_sums(*wis_terms(example)) == 1.0
    assert ratio_of_sums(*cwpdis_terms(example)) == 1.0
