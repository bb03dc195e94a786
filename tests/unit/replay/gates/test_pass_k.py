"""pass^k in exact arithmetic, against enumeration and on published runs."""

import json
from collections import defaultdict
from fractions import Fraction
from itertools import combinations
from pathlib import Path

import pytest

from atdp.replay.gates.pass_k import pass_k, pass_k_curve

RETAIL = Path(__file__).resolve().parents[5] / "shared" / "data" / "tau_bench_retail"
RUNS = sorted(RETAIL.glob("tool-calling-*.json"))


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_it_is_the_share_of_the_samples_that_have_only_successes(k: int) -> None:
    for successes in range(6):
        attempts = [1] * successes + [0] * (5 - successes)
        samples = [min(sample) for sample in combinations(attempts, k)]
        assert pass_k(successes, 5, k) == Fraction(sum(samples), len(samples))


def test_the_curve_leaves_out_what_nobody_attempted_often_enough() -> None:
    points = pass_k_curve([(2, 2), (1, 3)], 5, alpha=0.05, resamples=200, seed=0)
    assert [(p.k, p.tasks, p.exact) for p in points] == [
        (1, 2, "2/3"),
        (2, 2, "1/2"),
        (3, 1, "0/1"),
    ]
    assert all(p.lower <= p.value <= p.upper for p in points)


def test_the_same_seed_gives_the_same_band() -> None:
    counts = [(n % 4, 3) for n in range(40)]
    curves = [pass_k_curve(counts, 3, alpha=0.05, resamples=300, seed=s) for s in (1, 1, 2)]
    assert curves[0] == curves[1] != curves[2]


@pytest.mark.skipif(not RUNS, reason="the retail runs are not here")
def test_the_curve_of_the_published_retail_runs() -> None:
    results = defaultdict(list)
    for run in RUNS:
        for row in json.loads(run.read_text()):
            results[row["task_id"]].append(row["reward"] >= 0.5)
    counts = [(sum(each), len(each)) for each in results.values()]
    curve = pass_k_curve(counts, 5, alpha=0.05, resamples=500, seed=0)
    # The mean of the five published means, and the share of tasks that all five runs solved.
    assert curve[0].value == pytest.approx((0.748 + 0.878 + 0.896 + 0.922 + 0.930) / 5, abs=5e-4)
    assert curve[4].exact == str(Fraction(sum(c == 5 for c, _ in counts), 115))
    exact = ["503/575", "183/230", "169/230", "394/575", "74/115"]
    assert [point.exact for point in curve] == exact
