import pytest

from atdp.control import CanaryCounts, CanaryPolicy, ControlError, Judgement
from atdp.control.canary_judgement import judge_canary
from atdp.replay import Verdict


def counts(canary: tuple[int, int, int], stable: tuple[int, int, int]) -> CanaryCounts:
    """(sessions, judged, successes) of each side."""
    return CanaryCounts(
        canary_sessions=canary[0], canary_judged=canary[1], canary_successes=canary[2],
        stable_sessions=stable[0], stable_judged=stable[1], stable_successes=stable[2],
    )  # fmt: skip


def at_half(
    canary: tuple[int, int, int], stable: tuple[int, int, int], **policy: float
) -> Judgement:
    thresholds = CanaryPolicy(**policy)  # type: ignore[arg-type]
    return judge_canary(counts(canary, stable), share=0.5, policy=thresholds)


def test_a_clear_gain_passes() -> None:
    judgement = at_half((200, 200, 140), (200, 200, 90))
    assert (judgement.verdict, judgement.reason_codes) == (Verdict.PASS, ("success_holds",))
    assert judgement.lower is not None
    assert judgement.lower > -0.05


def test_a_clear_loss_fails() -> None:
    assert at_half((200, 200, 60), (200, 200, 120)).verdict is Verdict.FAIL


def test_a_handful_of_sessions_concludes_nothing_however_clear() -> None:
    judgement = at_half((20, 20, 20), (20, 20, 0))
    assert (judgement.verdict, judgement.hold, judgement.reason_codes) == (
        Verdict.INCONCLUSIVE,
        False,
        ("few_sessions",),
    )


def test_no_outcome_at_all_concludes_nothing() -> None:
    judgement = at_half((50, 0, 0), (50, 50, 10))
    assert (judgement.verdict, judgement.lower) == (Verdict.INCONCLUSIVE, None)


def test_a_split_that_does_not_fit_the_share_holds() -> None:
    judgement = at_half((200, 200, 140), (400, 400, 180))
    assert (judgement.verdict, judgement.hold, judgement.reason_codes) == (
        Verdict.INCONCLUSIVE, True, ("sample_ratio_mismatch",),
    )  # fmt: skip


def test_missing_outcomes_never_pass() -> None:
    judgement = at_half((1000, 200, 140), (1000, 200, 90))
    assert (judgement.verdict, judgement.reason_codes) == (
        Verdict.INCONCLUSIVE,
        ("missing_outcomes",),
    )


def test_waiting_ends_in_a_hold() -> None:
    judgement = at_half((3000, 3000, 1500), (3000, 3000, 1560), margin=0.02)
    assert (judgement.verdict, judgement.hold, judgement.reason_codes) == (
        Verdict.INCONCLUSIVE,
        True,
        ("sessions_spent",),
    )


@pytest.mark.parametrize(
    ("canary", "stable"),
    [((1, 2, 0), (1, 1, 1)), ((1, 1, 2), (1, 1, 1)), ((-1, -1, -1), (1, 1, 1))],
)
def test_impossible_counts_are_refused(
    canary: tuple[int, int, int], stable: tuple[int, int, int]
) -> None:
    with pytest.raises(ControlError):
        counts(canary, stable)


@pytest.mark.parametrize(
    "change",
    [
        {"margin": -0.1},
        {"margin": 1.0},
        {"alpha": 0.5},
        {"min_sessions": 1},
        {"min_sessions": 9999},
    ],
)
def test_thresholds_that_mean_nothing_are_refused(change: dict[str, float]) -> None:
    with pytest.raises(ControlError):
        CanaryPolicy(**change)  # type: ignore[arg-type]
