"""The bounds against reference constants, and the error rates of the judgement by simulation.

The constants are those of confseq's own tests, whose targets its R implementation computed.
"""

import math
from statistics import NormalDist

import numpy as np
import pytest

from atdp.control.canary_judgement import CanaryCounts, CanaryPolicy, judge_canary
from atdp.control.confidence_sequence import (
    best_rho,
    one_sided_bound,
    one_sided_log_mixture,
    sample_ratio_p,
)
from atdp.replay import Verdict


def test_one_sided_normal_mixture_matches_confseq() -> None:
    assert best_rho(100, 0.05) == pytest.approx(12.60056, abs=1e-5)
    rho = best_rho(100, 0.10)
    assert one_sided_bound(100, rho=rho, alpha=0.05) == pytest.approx(27.66071, abs=1e-5)


def test_without_its_one_sided_factor_the_mixture_is_the_two_sided_one_of_confseq() -> None:
    rho = best_rho(100, 0.05)

    def two_sided(s: float) -> float:
        factor = 2 * NormalDist().cdf(s / math.sqrt(100 + rho))
        return one_sided_log_mixture(s, 100, rho=rho) - math.log(factor)

    assert two_sided(10) == pytest.approx(-0.6510052, abs=1e-6)
    assert two_sided(30.35209) == pytest.approx(np.log(20), abs=1e-5)


def test_bounds_are_where_their_mixture_reaches_one_over_alpha() -> None:
    for v in (1.0, 50.0, 4000.0):
        rho = best_rho(300, 0.1)
        s = one_sided_bound(v, rho=rho, alpha=0.05)
        assert one_sided_log_mixture(s, v, rho=rho) == pytest.approx(np.log(20), abs=1e-6)


def test_sample_ratio_sees_a_broken_split_and_accepts_a_fair_one() -> None:
    assert sample_ratio_p(200, 800, share=0.2) == pytest.approx(1.0)
    assert sample_ratio_p(208, 792, share=0.2) > 0.3
    assert sample_ratio_p(300, 700, share=0.2) < 1e-10
    assert sample_ratio_p(0, 0, share=0.2) == 1.0
    assert sample_ratio_p(5, 0, share=1.0) == 1.0
    assert sample_ratio_p(5, 1, share=1.0) == 0.0


def stopped(
    rate: float, *, verdict: Verdict, runs: int, looks: int = 50, margin: float = 0.05
) -> float:
    """Return the share of simulated canaries that reach `verdict` at any of `looks` looks.

    Each side gets 20 sessions between two looks.
    """
    rng = np.random.default_rng(11)
    policy = CanaryPolicy(margin=margin)
    canary = rng.binomial(20, rate, size=(runs, looks)).cumsum(axis=1)
    stable = rng.binomial(20, 0.6, size=(runs, looks)).cumsum(axis=1)
    reached = 0
    for run in range(runs):
        for look in range(looks):
            n = 20 * (look + 1)
            counts = CanaryCounts(
                canary_sessions=n, canary_judged=n, canary_successes=int(canary[run, look]),
                stable_sessions=n, stable_judged=n, stable_successes=int(stable[run, look]),
            )  # fmt: skip
            if judge_canary(counts, share=0.5, policy=policy).verdict is verdict:
                reached += 1
                break
    return reached / runs


def test_fifty_looks_at_a_harmless_canary_stop_it_no_more_often_than_alpha() -> None:
    assert stopped(0.6, verdict=Verdict.FAIL, runs=300) <= 0.05


def test_fifty_looks_at_a_canary_at_the_margin_pass_it_no_more_often_than_alpha() -> None:
    assert stopped(0.55, verdict=Verdict.PASS, runs=300) <= 0.05


def test_a_loss_of_ten_points_is_found_within_a_thousand_sessions() -> None:
    assert stopped(0.5, verdict=Verdict.FAIL, runs=150) >= 0.95
