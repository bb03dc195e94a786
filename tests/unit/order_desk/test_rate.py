"""The intervals of rates, also where tasks were attempted several times."""

import random

import pytest

from order_desk.rate import Rate, is_at_least

TRUTH = 0.4
TASKS, ATTEMPTS = 80, 8


@pytest.mark.parametrize(
    ("successes", "sessions", "lower", "upper"),
    # Newcombe 1998 (Statistics in Medicine 17, 857), table I, method 3
    [
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_the_interval_of_single_attempts_is_wilsons(
    successes: int, sessions: int, lower: float, upper: float
) -> None:
    assert Rate(successes=successes, sessions=sessions).bounds == pytest.approx(
        (lower, upper), abs=6e-5
    )


# Weil 1970: pups that survived of each litter, and the design effects that R's package PF gives for
# them (`rsb`)
CONTROL = (
    (13, 13), (12, 12), (9, 9), (9, 9), (8, 8), (8, 8), (12, 13), (11, 12),
    (9, 10), (9, 10), (8, 9), (11, 13), (4, 5), (5, 7), (7, 10), (7, 10),
)  # fmt: skip
TREATED = (
    (12, 12), (11, 11), (10, 10), (9, 9), (10, 11), (9, 10), (9, 10), (8, 9),
    (8, 9), (4, 5), (7, 9), (4, 7), (5, 10), (3, 6), (3, 10), (0, 7),
)  # fmt: skip


@pytest.mark.parametrize(("litters", "design_effect"), [(CONTROL, 1.232495), (TREATED, 3.952861)])
def test_the_effective_number_is_rao_and_scotts(
    litters: tuple[tuple[int, int], ...], design_effect: float
) -> None:
    sessions = sum(size for _, size in litters)
    rate = Rate(successes=sum(alive for alive, _ in litters), sessions=sessions, tasks=litters)
    assert sessions / rate.effective_sessions == pytest.approx(design_effect, abs=1e-6)


def drawn(rng: random.Random) -> Rate:
    """Rate of tasks whose difficulty is drawn from Beta(1, 1.5), whose mean is `TRUTH`."""
    return Rate.of(
        (f"task-{task}", rng.random() < chance)
        for task, chance in enumerate(rng.betavariate(1, 1.5) for _ in range(TASKS))
        for _ in range(ATTEMPTS)
    )


def coverage(*, by_task: bool, runs: int = 400) -> float:
    rng = random.Random(1)
    covered = 0
    for _ in range(runs):
        rate = drawn(rng)
        judged = rate if by_task else Rate(successes=rate.successes, sessions=rate.sessions)
        lower, upper = judged.bounds
        covered += lower <= TRUTH <= upper
    return covered / runs


def test_the_interval_covers_the_truth_in_95_percent_when_attempts_share_tasks() -> None:
    assert coverage(by_task=True) == pytest.approx(0.95, abs=0.025)


def test_attempts_taken_for_independent_would_cover_the_truth_far_too_rarely() -> None:
    assert coverage(by_task=False) < 0.8


def test_attempts_that_agree_no_more_than_by_chance_count_in_full() -> None:
    rate = Rate(successes=40, sessions=80, tasks=((4, 8),) * 10)
    assert rate.effective_sessions == 80


@pytest.mark.parametrize("successes", [0, 8])
def test_where_all_attempts_agree_a_task_counts_once(successes: int) -> None:
    rate = Rate(successes=10 * successes, sessions=80, tasks=((successes, 8),) * 10)
    assert rate.bounds == Rate(successes=10 * successes // 8, sessions=10).bounds


def test_one_attempt_for_each_task_needs_no_counts_by_task() -> None:
    assert Rate.of([("a", True), ("b", False)]) == Rate(successes=1, sessions=2)
    assert Rate.of([("a", True), ("b", False), ("a", False)]).tasks == ((1, 2), (0, 1))


def test_without_sessions_the_rate_is_undefined() -> None:
    rate = Rate.of([])
    assert rate.value is None
    assert rate.shown == "none"
    assert rate.bounds == (0.0, 1.0)
    assert rate.to_json()["success"] is None


def test_an_undefined_or_zero_rate_is_no_multiple_of_another() -> None:
    none, nobody = Rate(successes=0, sessions=9), Rate(successes=0, sessions=0)
    assert not is_at_least(none, 2, none)
    assert not is_at_least(nobody, 2, none)
    assert not is_at_least(Rate(successes=9, sessions=9), 2, nobody)
    assert is_at_least(Rate(successes=1, sessions=9), 2, none)
