"""Bias of GRPO when rollouts with personal values are set aside, by rule, in a simulation.

Run: `python benchmarks/group_bias.py [--json] [--groups N] [--failures .7] [--successes .2]`. A
task has a probability of success, uniform between 0 and 1, and a group of eight rollouts with
rewards 0 and 1. A rollout holds a personal value with one probability when it fails and another one
when it succeeds. An advantage is the reward minus the mean of the group (arXiv 2402.03300, section
4.1.2, without the division by the standard deviation, as in arXiv 2503.20783). Groups whose rewards
are all equal carry no signal and are not trained on. With `rewards counted`, the rewards of what is
set aside are part of the mean and of the signal, and nothing else of it is used.

`mean reward`: of the rollouts that are trained on. `shift`: by how much their advantages differ
from those in the whole group, on average. `groups left`: of the groups that carry a signal.

`gain`: of the mean reward in the direction of the expected gradient, to first order, for each
rollout trained on, relative to a training on everything. The policy of a task is a softmax over
four answers: right or wrong, each with or without a personal value. `personal failures`: the same
for the probability of wrong answers with a personal value, which training ought to lower: 100 % is
the effect of training on everything.
"""

import argparse
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

GROUP: Final = 8
SEED: Final = 7

Rows = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Rollouts:
    """Groups of rollouts; the arrays have the shape (groups, rollouts), `solved` (groups, 1)."""

    solved: NDArray[np.float64]
    rewards: NDArray[np.float64]
    personal: NDArray[np.bool_]
    probabilities: NDArray[np.float64]
    """Of the answers right, right and personal, wrong, wrong and personal; shape (groups, 4)."""

    @property
    def answers(self) -> NDArray[np.int64]:
        """The answer of each rollout, as an index of `probabilities`."""
        return np.where(self.rewards > 0, 0, 2) + self.personal


def rollouts(groups: int, in_failures: float, in_successes: float) -> Rollouts:
    """Return sampled groups. `in_*`: probability of a personal value."""
    chance = np.random.default_rng(SEED)
    solved = chance.random((groups, 1))
    rewards = (chance.random((groups, GROUP)) < solved).astype(np.float64)
    personal = chance.random(rewards.shape) < np.where(rewards > 0, in_successes, in_failures)
    shares = (
        solved * (1 - in_successes),
        solved * in_successes,
        (1 - solved) * (1 - in_failures),
        (1 - solved) * in_failures,
    )
    return Rollouts(
        solved=solved, rewards=rewards, personal=personal, probabilities=np.hstack(shares)
    )


def simulate(groups: int, in_failures: float, in_successes: float) -> Rows:
    """Return the figures by rule."""
    made = rollouts(groups, in_failures, in_successes)
    none, single = np.ones_like(made.personal), ~made.personal
    whole = np.broadcast_to(single.all(axis=1, keepdims=True), single.shape)
    rows = {
        "single rollouts set aside": figures(made, kept=single, counted=single),
        "..., rewards counted": figures(made, kept=single, counted=none),
        "whole groups set aside": figures(made, kept=whole, counted=whole),
        "nothing set aside": figures(made, kept=none, counted=none),
    }
    everything = rows["nothing set aside"]
    relative = ("gain", "personal failures")
    return {
        rule: {**row, **{name: row[name] / everything[name] for name in relative}}
        for rule, row in rows.items()
    }


def figures(
    made: Rollouts, *, kept: NDArray[np.bool_], counted: NDArray[np.bool_]
) -> dict[str, float]:
    """Return the figures of a rule: `kept` rollouts are trained on, `counted` are compared with."""
    rewards = made.rewards
    count = counted.sum(axis=1, keepdims=True)
    solved = (rewards * counted).sum(axis=1, keepdims=True)
    used = kept & (solved > 0) & (solved < count)
    baseline = np.divide(solved, count, out=np.zeros_like(solved), where=count > 0)
    whole = rewards.mean(axis=1, keepdims=True)
    with_signal = ((whole > 0) & (whole < 1)).sum()
    return {
        "mean reward": float(rewards[used].mean()),
        "shift": float(np.broadcast_to(whole - baseline, rewards.shape)[used].mean()),
        "groups left": float(used.any(axis=1).sum() / with_signal),
        **effects(made, used * (rewards - baseline), int(used.sum())),
    }


def effects(made: Rollouts, advantages: NDArray[np.float64], used: int) -> dict[str, float]:
    """Return the first-order effects of the gradient of the used rollouts, for each of them.

    The gradient of a logit is the sum of `A (1[answer] - probability)` over the rollouts.
    """
    share = made.probabilities
    taken = made.answers[..., None] == np.arange(4)
    gradient = (advantages[..., None] * (taken - share[:, None, :])).sum(axis=1)
    reward = np.array([1.0, 1.0, 0.0, 0.0])
    of_reward = share * (reward - made.solved)
    of_failures = share[:, 3:] * (np.array([0.0, 0.0, 0.0, 1.0]) - share)
    return {
        "gain": float((gradient * of_reward).sum() / used),
        "personal failures": float((gradient * of_failures).sum() / used),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, default=200_000)
    parser.add_argument("--failures", type=float, default=0.7, help="with a personal value")
    parser.add_argument("--successes", type=float, default=0.2, help="with a personal value")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = simulate(options.groups, options.failures, options.successes)
    if options.json:
        print(json.dumps(rows))
        return
    print(
        f"{'rule':<28}{'mean reward':>12}{'shift':>8}{'groups left':>13}{'gain':>7}"
        f"{'personal failures':>19}"
    )
    for rule, row in rows.items():
        print(
            f"{rule:<28}{row['mean reward']:>12.2f}{row['shift']:>+8.2f}{row['groups left']:>13.0%}"
            f"{row['gain']:>7.0%}{row['personal failures']:>19.0%}"
        )


if __name__ == "__main__":
    main()
