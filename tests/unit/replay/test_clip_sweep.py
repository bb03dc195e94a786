import numpy as np
import pytest

from atdp.replay.clip_sweep import CLIPS, clip_sweep
from atdp.replay.estimators import LoggedReturns, ratio_of_sums, wis_terms


def log_of(weights: list[float], rewards: list[float]) -> LoggedReturns:
    return LoggedReturns(
        log_ratio=np.log(np.array(weights))[:, None],
        reward=np.array(rewards)[:, None],
        mask=np.ones((len(weights), 1), dtype=bool),
    )


def test_a_cut_above_all_weights_is_weighted_importance_sampling() -> None:
    candidate = log_of([0.5, 3.0, 0.1, 8.0], [0.0, 1.0, 0.0, 1.0])
    baseline = log_of([1.0, 1.0, 1.0, 1.0], [0.0, 1.0, 0.0, 1.0])
    sweep = clip_sweep(candidate, baseline)
    assert [point.clip for point in sweep] == list(CLIPS)
    for point in sweep:
        assert point.baseline == 0.5
        if point.clip >= 8.0:
            assert point.candidate == pytest.approx(ratio_of_sums(*wis_terms(candidate)))
    assert sweep[0].candidate == pytest.approx(2.0 / 2.6)
    assert [point.ess for point in sweep] == sorted((p.ess for p in sweep), reverse=True)


def test_a_cut_survives_weights_that_overflow_or_vanish() -> None:
    huge = LoggedReturns(
        log_ratio=np.array([[2000.0], [-2000.0]]),
        reward=np.array([[1.0], [0.0]]),
        mask=np.ones((2, 1), dtype=bool),
    )
    assert {point.candidate for point in clip_sweep(huge, huge)} == {1.0}
