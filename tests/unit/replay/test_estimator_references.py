"""Numbers that this project did not write: SCOPE-RL 0.2.1, enumerated ModelWin, the analytic bandit."""

import itertools

import numpy as np
import pytest

from atdp.replay.estimators import (
    LoggedReturns,
    cwpdis,
    direct_method,
    doubly_robust,
    per_decision_is,
    per_decision_values,
    trajectory_is,
    trajectory_values,
    trajectory_wis,
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
Q_HAT = np.array(
    [
        [[0.786, 0.848], [1.176, 0.94], [0.901, 0.443]],
        [[0.994, 0.778], [1.583, 1.327], [0.988, 1.334]],
        [[0.83, 1.526], [0.997, 1.292], [0.355, 1.173]],
        [[0.156, -0.018], [0.848, 0.55], [1.082, 2.122]],
        [[0.584, 0.688], [1.103, 1.247], [0.912, 0.897]],
        [[1.351, 1.26], [0.483, 0.96], [1.018, 0.473]],
    ]
)
TARGET = np.where(ACTIONS == 0, TARGET_OF_ZERO, 1.0 - TARGET_OF_ZERO)
V_STATE = TARGET_OF_ZERO * Q_HAT[..., 0] + (1.0 - TARGET_OF_ZERO) * Q_HAT[..., 1]
Q_TAKEN = np.take_along_axis(Q_HAT, ACTIONS[..., None], axis=2)[..., 0]
SCOPE = LoggedReturns(
    log_ratio=np.log(TARGET) - np.log(BEHAVIOUR),
    reward=REWARDS,
    mask=np.ones((6, 3), dtype=bool),
    gamma=0.95,
)


@pytest.mark.parametrize(
    ("value", "expected", "tolerance"),
    [
        (direct_method(V_STATE[:, 0]), 0.8242411666666666, 1e-12),
        (trajectory_is(SCOPE), 2.054394919840327, 1e-12),
        (per_decision_is(SCOPE), 1.554500637814533, 1e-12),
        (doubly_robust(SCOPE, q_taken=Q_TAKEN, v_state=V_STATE), 1.1369899419151646, 1e-12),
        (trajectory_wis(SCOPE), 1.412263819929664, 1e-8),
        (cwpdis(SCOPE), 1.3461437158087846, 1e-8),
        (
            doubly_robust(SCOPE, q_taken=Q_TAKEN, v_state=V_STATE, self_normalised=True),
            1.3316033473292557,
            1e-8,
        ),
    ],
    ids=["DM", "TIS", "PDIS", "DR", "SNTIS", "SNPDIS", "SNDR"],
)
def test_scope_rl_reference_case_is_reproduced(
    value: float, expected: float, tolerance: float
) -> None:
    assert value == pytest.approx(expected, abs=tolerance)


def model_win() -> tuple[LoggedReturns, np.ndarray, np.ndarray, np.ndarray]:
    """All 64 trajectories of ModelWin at horizon 4 with their behaviour probabilities, true Q and V."""
    behaviour, target = np.array([0.73, 0.27]), np.array([0.27, 0.73])
    to_win = np.array([0.4, 0.6])  # P(s1 | s0, a)
    v_start = float(target @ (2 * to_win - 1))  # expected reward of one visit to s0
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
    immediate = 2 * to_win - 1
    q = np.zeros((64, 4))
    q[:, 0] = immediate[actions_all[:, 0]] + v_start
    q[:, 1] = v_start
    q[:, 2] = immediate[actions_all[:, 2]]
    v = np.tile([2 * v_start, v_start, v_start, 0.0], (64, 1))
    logged = LoggedReturns(
        log_ratio=np.log(target[actions_all]) - np.log(behaviour[actions_all]),
        reward=rewards,
        mask=np.ones((64, 4), dtype=bool),
    )
    return logged, probability, q, v


def one(logged: LoggedReturns, i: int) -> LoggedReturns:
    return LoggedReturns(
        log_ratio=logged.log_ratio[i : i + 1],
        reward=logged.reward[i : i + 1],
        mask=logged.mask[i : i + 1],
    )


def test_model_win_enumerated_gives_the_exact_value_and_variances() -> None:
    logged, p, q, v = model_win()
    assert p.sum() == pytest.approx(1.0, abs=1e-12)
    tis, pdis = trajectory_values(logged), per_decision_values(logged)
    dr = np.array(
        [
            doubly_robust(one(logged, i), q_taken=q[i : i + 1], v_state=v[i : i + 1])
            for i in range(64)
        ]
    )
    for values, variance in ((tis, 38.148412), (pdis, 11.024339), (dr, 10.549668)):
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
    values = trajectory_values(logged)
    assert float(p @ values) == pytest.approx(0.76, abs=1e-12)
    assert float(p @ (values - 0.76) ** 2) == pytest.approx(5.892097, abs=1e-6)
