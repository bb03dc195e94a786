"""The running baseline: its values, its memory, and its bias, computed exactly for a bandit."""

import itertools
import math

import numpy as np
import pytest

from atdp.trainer.algo.advantages import advantages, whitened
from atdp.trainer.algo.baseline import MOST_CLUSTERS, PRIOR, Baselines, Cluster

DESK = Cluster(tenant="t", agent="desk", has_outcome=True, versions="p1 x")


def compare(
    state: Baselines, rewards: list[float], clusters: list[Cluster] | None = None
) -> list[float]:
    values = state.compare(clusters or [DESK] * len(rewards), [(reward,) for reward in rewards])
    return [value for (value,) in values]


def test_a_batch_without_history_is_compared_with_its_other_members_as_by_rloo() -> None:
    assert compare(Baselines(), [1, 0, 0, 1]) == pytest.approx(
        [0.666667, -0.666667, -0.666667, 0.666667], abs=1e-6
    )
    rewards = [0.3, 1.0, -2.0]
    assert compare(Baselines(), rewards) == pytest.approx(advantages(rewards, "rloo"))


def test_a_lone_trajectory_is_compared_with_the_exponential_average() -> None:
    state = Baselines().after([DESK, DESK], [(1.0,), (0.0,)], horizon=2)
    assert compare(state, [1.0]) == pytest.approx([2 / 3])  # mean (0.5 * 1 + 0) / 1.5


def test_the_first_trajectory_of_all_has_no_signal_and_is_remembered() -> None:
    assert compare(Baselines(), [1.0]) == [0.0]
    assert compare(Baselines().after([DESK], [(1.0,)], horizon=8), [0.0]) == [-1.0]


def test_turns_are_compared_with_the_same_value_and_every_trajectory_weighs_the_same() -> None:
    state = Baselines().after([DESK], [(0.0, 1.0, 0.5)], horizon=8)
    assert state.compare([DESK], [(1.0, 0.25)]) == [(0.5, -0.25)]


def test_a_new_prompt_version_begins_with_the_agents_mean_and_leaves_it() -> None:
    new = DESK._replace(versions="p2 x")
    state = Baselines().after([DESK] * 4, [(0.0,)] * 4, horizon=10**9)
    assert compare(state, [1.0], [new]) == pytest.approx([1.0])
    state = state.after([new] * 4, [(1.0,)] * 4, horizon=10**9)
    expected = (4 * 1.0 + PRIOR * 0.5) / (4 + PRIOR)
    assert compare(state, [1.0], [new]) == pytest.approx([1 - expected])


@pytest.mark.parametrize(
    "other",
    [
        DESK._replace(tenant="u"),
        DESK._replace(agent="clerk"),
        DESK._replace(has_outcome=False),
    ],
)
def test_tenants_agents_and_what_has_no_outcome_are_never_compared_with_each_other(
    other: Cluster,
) -> None:
    state = Baselines().after([DESK] * 4, [(0.0,)] * 4, horizon=8)
    assert compare(state, [1.0], [other]) == [0.0]


def test_a_prompt_that_is_new_in_every_session_still_has_a_baseline_and_a_small_state() -> None:
    state = Baselines()
    for n in range(2 * MOST_CLUSTERS):
        state = state.after([DESK._replace(versions=f"p{n}")], [(n % 2.0,)], horizon=64)
    assert len(state.averages) == MOST_CLUSTERS
    (advantage,) = compare(state, [1.0], [DESK._replace(versions="new")])
    assert advantage == pytest.approx(0.5, abs=0.02)


def test_a_state_reads_back_as_it_was_written() -> None:
    state = Baselines().after([DESK] * 3, [(0.1,), (0.7,), (1 / 3,)], horizon=7)
    assert Baselines.from_json(state.to_json()) == state


def expected_gradient(kind: str, history: Baselines, count: int = 3) -> tuple[float, float]:
    """Return the expectation of the policy gradient over all batches of a bandit, and the truth.

    The policy takes action 1, which is rewarded with 1, with probability p, and else action 0,
    with reward 0.2: `grad log pi` is 1 - p and -p, and the gradient of the expected reward is
    0.8 p (1 - p).
    """
    p, rewards = 0.3, (0.2, 1.0)
    total = 0.0
    for actions in itertools.product((0, 1), repeat=count):
        drawn = [rewards[action] for action in actions]
        values = compare(history, drawn)
        if kind == "batch mean":
            values = list(np.array(drawn) - np.mean(drawn))
        if kind == "whitened":
            flat = whitened([(value,) for value in values], [[1]] * count)
            values = [value for (value,) in flat]
        score = [action - p for action in actions]
        chance = math.prod(p if action else 1 - p for action in actions)
        total += chance * float(np.mean(np.array(values) * score))
    return total, 0.8 * p * (1 - p)


@pytest.mark.parametrize("past", [[], [0.2] * 5, [1.0, 1.0, -7.0]])
def test_the_running_baseline_leaves_the_expected_gradient_as_it_is(past: list[float]) -> None:
    history = Baselines().after([DESK] * len(past), [(value,) for value in past], horizon=16)
    found, truth = expected_gradient("running", history)
    assert found == pytest.approx(truth, abs=1e-12)


def test_a_mean_that_contains_the_own_reward_shrinks_the_gradient_and_whitening_rescales_it() -> (
    None
):
    found, truth = expected_gradient("batch mean", Baselines())
    assert found == pytest.approx(truth * 2 / 3)
    found, truth = expected_gradient("whitened", Baselines())
    assert found / truth == pytest.approx(1.77, abs=0.01)


def test_whitened_advantages_have_mean_zero_and_variance_one_over_tokens() -> None:
    ((a, b), (c,)) = whitened([(1.0, 0.0), (3.0,)], [[1, 2], [1]])
    assert a + 2 * b + c == pytest.approx(0)
    assert (a**2 + 2 * b**2 + c**2) / 4 == pytest.approx(1, abs=1e-4)
