"""Advantages: values of AReaL's normalisation (eps 1e-5, unbiased), and properties."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from atdp.trainer.algo.advantages import AdvantageKind, advantages, turn_advantages

REWARDS = st.lists(st.floats(-10, 10, allow_nan=False), min_size=2, max_size=16)


@pytest.mark.parametrize(
    ("kind", "rewards", "expected"),
    [
        ("grpo", [1, 0, 0, 1], [0.866010, -0.866010, -0.866010, 0.866010]),
        ("grpo", [1, 0, 0, 0], [1.499970, -0.499990, -0.499990, -0.499990]),
        ("rloo", [1, 0, 0, 1], [0.666667, -0.666667, -0.666667, 0.666667]),
        ("dr", [1, 0, 0, 1], [0.5, -0.5, -0.5, 0.5]),
    ],
)
def test_known_groups_have_their_published_advantages(
    kind: AdvantageKind, rewards: list[float], expected: list[float]
) -> None:
    assert advantages(rewards, kind) == pytest.approx(expected, abs=1e-6)


@given(REWARDS, st.sampled_from(["grpo", "dr", "rloo"]))
def test_a_groups_advantages_sum_to_zero(rewards: list[float], kind: AdvantageKind) -> None:
    assert abs(advantages(rewards, kind).sum()) < 1e-6 * max(1.0, *map(abs, rewards))


@given(REWARDS)
def test_leave_one_out_equals_its_definition(rewards: list[float]) -> None:
    others = [np.mean(rewards[:n] + rewards[n + 1 :]) for n in range(len(rewards))]
    if len(set(rewards)) > 1:
        assert advantages(rewards, "rloo") == pytest.approx(np.array(rewards) - others, abs=1e-9)


@pytest.mark.parametrize("kind", ["grpo", "dr", "rloo"])
@pytest.mark.parametrize("rewards", [[1.0], [0.0, 0.0, 0.0], [0.3, 0.3]])
def test_one_member_or_equal_rewards_give_no_signal(
    kind: AdvantageKind, rewards: list[float]
) -> None:
    assert not advantages(rewards, kind).any()


TURNS = st.lists(st.lists(st.floats(-10, 10), min_size=1, max_size=4), min_size=2, max_size=8)


@given(TURNS, st.sampled_from(["grpo", "dr", "rloo"]))
def test_a_groups_advantages_by_turn_sum_to_zero_with_every_member_weighing_the_same(
    returns: list[list[float]], kind: AdvantageKind
) -> None:
    means = [float(np.mean(member)) for member in turn_advantages(returns, kind)]
    largest = max(abs(value) for member in returns for value in member)
    assert abs(sum(means)) < 1e-5 * max(1.0, largest)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        # Means of the members 0.5 and 0, so of the group 0.25; squared deviations: the mean over
        # the turns is 0.3125 for the first member and 0.0625 for the second.
        ("grpo", [(1.224725, -0.408242), (-0.408242,)]),
        ("dr", [(0.75, -0.25), (-0.25,)]),
        ("rloo", [(1.0, 0.0), (-0.5,)]),
    ],
)
def test_turns_have_advantages_of_their_own(
    kind: AdvantageKind, expected: list[tuple[float, ...]]
) -> None:
    found = turn_advantages([(1.0, 0.0), (0.0,)], kind)
    assert [pytest.approx(member, abs=1e-5) for member in expected] == found


@given(REWARDS, st.sampled_from(["grpo", "dr", "rloo"]))
def test_equal_returns_of_all_turns_give_the_advantages_of_whole_trajectories(
    rewards: list[float], kind: AdvantageKind
) -> None:
    whole = advantages(rewards, kind)
    by_turn = turn_advantages([(reward,) * (1 + n % 3) for n, reward in enumerate(rewards)], kind)
    for member, expected in zip(by_turn, whole, strict=True):
        assert member == pytest.approx((expected,) * len(member), abs=1e-6)
