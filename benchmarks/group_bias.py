"""Bias of GRPO when rollouts with personal values are set aside, by rule, in a simulation.

Run: `python benchmarks/group_bias.py [--json] [--groups N] [--failures .7] [--successes .2]`. A
task has a probability of success, uniform between 0 and 1, and a group of eight rollouts with
rewards 0 and 1. A rollout holds a personal value with one probability when it fails and another one
when it succeeds. An advantage is the reward minus the mean of the group (arXiv 2402.03300, section
4.1.2, without the division by the standard deviation, as in arXiv 2503.20783). Groups whose rewards
are all equal carry no signal and are not trained on.

`mean reward`: of the rollouts that are trained on. `shift`: by how much their advantages differ
from those in the whole group, on average. `groups left`: of the groups that carry a signal.
"""

import argparse
import json
from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

GROUP: Final = 8
SEED: Final = 7

Rows = Mapping[str, Mapping[str, float]]


def simulate(groups: int, in_failures: float, in_successes: float) -> Rows:
    """Return the figures by rule. `in_*`: probability of a personal value."""
    chance = np.random.default_rng(SEED)
    solved = chance.random((groups, 1))
    rewards = (chance.random((groups, GROUP)) < solved).astype(np.float64)
    personal = chance.random(rewards.shape) < np.where(rewards > 0, in_successes, in_failures)
    kept_by_rule = {
        "single rollouts set aside": ~personal,
        "whole groups set aside": np.broadcast_to(
            ~personal.any(axis=1, keepdims=True), rewards.shape
        ),
        "nothing set aside": np.ones_like(personal),
    }
    return {rule: figures(rewards, kept) for rule, kept in kept_by_rule.items()}


def figures(rewards: NDArray[np.float64], kept: NDArray[np.bool_]) -> Mapping[str, float]:
    """Return the figures of a rule. `rewards` and `kept` have the shape (groups, rollouts)."""
    count = kept.sum(axis=1, keepdims=True)
    solved = (rewards * kept).sum(axis=1, keepdims=True)
    used = kept & (solved > 0) & (solved < count)
    baseline = np.divide(solved, count, out=np.zeros_like(solved), where=count > 0)
    whole = rewards.mean(axis=1, keepdims=True)
    with_signal = ((whole > 0) & (whole < 1)).sum()
    return {
        "mean reward": float(rewards[used].mean()),
        "shift": float(np.broadcast_to(whole - baseline, rewards.shape)[used].mean()),
        "groups left": float(used.any(axis=1).sum() / with_signal),
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
    print(f"{'rule':<28}{'mean reward':>12}{'shift':>8}{'groups left':>13}")
    for rule, row in rows.items():
        print(
            f"{rule:<28}{row['mean reward']:>12.2f}{row['shift']:>+8.2f}{row['groups left']:>13.0%}"
        )


if __name__ == "__main__":
    main()
