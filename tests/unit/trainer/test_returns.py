"""Credit by turn: the returns of turns, against AReaL's recurrence and by hand."""

from typing import Any

import pytest
from hypothesis import given, strategies as st

from atdp.lakehouse import GenerationRecord, StepReward, TrajectoryRecord
from atdp.trainer.algo.returns import discounted_returns
from atdp.trainer.lake_records import rewards_of_calls

REWARD = st.one_of(st.none(), st.floats(-2, 2))


def test_a_reward_at_the_end_is_discounted_as_areal_discounts_it() -> None:
    assert discounted_returns([None, None, None], 1.0, gamma=0.9) == pytest.approx((0.81, 0.9, 1.0))
    assert discounted_returns([0.0, 0.0, 1.0], None, gamma=0.9) == pytest.approx((0.81, 0.9, 1.0))


def test_a_turn_is_credited_with_what_came_after_it_and_not_with_what_came_before() -> None:
    assert discounted_returns([0.5, None, -1.0], 1.0, gamma=0.5) == (0.5, 0.0, 0.0)
    assert discounted_returns([1.0, -1.0, None], None) == (0.0, -1.0, 0.0)


@given(st.lists(REWARD, min_size=1, max_size=6), REWARD, st.floats(0.1, 1))
def test_returns_equal_their_definition(
    rewards: list[float | None], outcome: float | None, gamma: float
) -> None:
    received = [reward or 0.0 for reward in rewards]
    received[-1] += outcome or 0.0
    expected = [
        sum(gamma ** (j - k) * received[j] for j in range(k, len(received)))
        for k in range(len(received))
    ]
    assert discounted_returns(rewards, outcome, gamma=gamma) == pytest.approx(tuple(expected))


def call(event_id: str, step: int) -> GenerationRecord:
    values: dict[str, Any] = dict.fromkeys(GenerationRecord.__dataclass_fields__)
    return GenerationRecord(**{**values, "event_id": event_id, "step": step})


@pytest.mark.parametrize(
    ("reward", "expected"),
    [
        (StepReward(step=1, event_id="b1", value=2.0), [None, 2.0, None, None]),  # a call itself
        (StepReward(step=1, event_id="tool", value=2.0), [None, None, 2.0, None]),  # last of step
        (StepReward(step=1, event_id=None, value=2.0), [None, None, 2.0, None]),
        (
            StepReward(step=2, event_id=None, value=2.0),
            [None, None, 2.0, None],
        ),  # step without call
        (StepReward(step=-1, event_id=None, value=2.0), [2.0, None, None, None]),
    ],
)
def test_a_reward_belongs_to_the_call_that_it_names_or_to_the_last_call_of_its_step(
    reward: StepReward, expected: list[float | None]
) -> None:
    values: dict[str, Any] = dict.fromkeys(TrajectoryRecord.__dataclass_fields__)
    calls = (call("a", 0), call("b1", 1), call("b2", 1), call("d", 3))
    record = TrajectoryRecord(**{**values, "generations": calls, "step_rewards": (reward,)})
    assert rewards_of_calls(record) == expected
