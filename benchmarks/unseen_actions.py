"""The error rate of replay's bounds for a loss that the log hardly shows, by simulation.

Run: `python -m benchmarks.unseen_actions [--json] [--runs N]`. In a share of the tasks the
candidate often gives an answer that always fails and that occurs in few or no tasks of the log.
Every other answer succeeds in 80 of 100 attempts. `in the log` is the expected number of tasks with
the failing answer. Logs whose weights the release gate would refuse are not counted.

`miss` is the share of the intervals whose lower bound is above the true loss: each of them would
pass a candidate that is worse than the tolerated loss. `ignored` is the same with
`missing: ignorable`, which assumes that what the log lacks is like the rest. The nominal rate is
`alpha`, the part of the error that the first, second or third look may spend.
"""

import argparse
import json
from dataclasses import dataclass
from typing import Final

import numpy as np

from atdp.replay import ReplayConfig
from atdp.replay.bounded_estimates import bounded_estimates
from atdp.replay.bounded_returns import BoundedReturns
from atdp.replay.diagnostics import diagnose
from atdp.replay.estimators import Floats, LoggedReturns

RIGHT: Final = 0.8
"""Probability of success of every answer except the failing one."""
LOOKS: Final = (1, 2, 3)


@dataclass(frozen=True, slots=True)
class Habit:
    """An answer that fails: the share of the tasks where it is possible, and its probabilities."""

    tasks: int
    attempts: int
    share: float
    behaviour: float
    candidate: float

    @property
    def truth(self) -> float:
        """The difference in value, candidate minus behaviour."""
        return -self.share * RIGHT * (self.candidate - self.behaviour)

    @property
    def logged(self) -> float:
        """The expected number of tasks in which the log holds the answer."""
        return self.tasks * self.share * (1.0 - (1.0 - self.behaviour) ** self.attempts)


HABITS: Final = (
    Habit(50, 1, 0.3, 0.01, 0.05), Habit(100, 1, 0.3, 0.01, 0.2), Habit(100, 1, 0.5, 0.005, 0.4),
    Habit(40, 4, 0.3, 0.01, 0.2), Habit(100, 1, 0.3, 0.03, 0.5), Habit(40, 4, 0.1, 0.03, 0.5),
    Habit(100, 1, 1.0, 0.03, 0.1), Habit(40, 4, 0.1, 0.5, 0.9), Habit(100, 1, 0.3, 0.1, 0.5),
)  # fmt: skip


def sample(habit: Habit, rng: np.random.Generator) -> tuple[BoundedReturns, BoundedReturns]:
    """Draw a log, and return it for the candidate and for the behaviour policy."""
    shape = (habit.tasks, habit.attempts)
    possible = rng.random((habit.tasks, 1)) < habit.share
    answer = rng.random(shape) < habit.behaviour
    reward = np.where(possible & answer, 0.0, rng.random(shape) < RIGHT).reshape(-1)
    of_answer = np.where(
        answer,
        habit.candidate / habit.behaviour,
        (1.0 - habit.candidate) / (1.0 - habit.behaviour),
    )
    ratio = np.log(np.where(possible, of_answer, 1.0)).reshape(-1)
    return _returns(ratio, reward), _returns(np.zeros(ratio.size), reward)


def _returns(log_ratio: Floats, reward: Floats) -> BoundedReturns:
    logged = LoggedReturns(
        log_ratio=log_ratio[:, None],
        reward=reward[:, None],
        mask=np.ones((reward.size, 1), dtype=bool),
    )
    return BoundedReturns(scored=logged, low=logged, logged=logged, high=logged)


@dataclass(kw_only=True, slots=True)
class Misses:
    """Counts of the logs that the gate would not refuse, and of the lower bounds that miss."""

    judged: int = 0
    missed: int = 0

    @property
    def share(self) -> float:
        """The share of the judged logs; 0 for none."""
        return self.missed / max(self.judged, 1)


def measure(habit: Habit, config: ReplayConfig, *, runs: int, seed: int = 1) -> Misses:
    """Return the misses over `runs` logs."""
    misses, codes = Misses(), np.repeat(np.arange(habit.tasks), habit.attempts)
    for run in range(runs):
        candidate, baseline = sample(habit, np.random.default_rng([seed, run]))
        weights = diagnose(candidate.scored)
        if weights.ess < config.min_ess or weights.max_weight_share > config.max_weight_share:
            continue
        estimates = bounded_estimates(
            candidate,
            baseline,
            codes=codes,
            state_values=np.zeros((codes.size, 1)),
            config=config,
        )
        decisive = next(each for each in estimates if each.name == config.decisive_estimate)
        misses.judged += 1
        misses.missed += decisive.difference.lower > habit.truth
    return misses


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000, help="logs of each kind")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = []
    if not options.json:
        print(f"{'tasks':>6}{'att.':>5}{'loss':>8}{'in the log':>12}{'look':>6}", end="")
        print(f"{'alpha':>8}{'logs':>7}{'miss':>8}{'ignored':>10}")
    for habit in HABITS:
        for look in LOOKS:
            config = ReplayConfig(look=look)
            bounded = measure(habit, config, runs=options.runs)
            ignored = measure(
                habit, ReplayConfig(look=look, missing="ignorable"), runs=options.runs
            )
            row = (habit.tasks, habit.attempts, -habit.truth, habit.logged, look,
                   config.spent_alpha, bounded.judged, bounded.share, ignored.share)  # fmt: skip
            rows.append(row)
            if not options.json:
                print("{:>6}{:>5}{:>8.3f}{:>12.2f}{:>6}{:>8.4f}{:>7}{:>8.3f}{:>10.3f}".format(*row))
    if options.json:
        print(json.dumps(rows))
        return
    print(f"misses {max(row[7] / row[5] for row in rows):.1f} × alpha in the worst row")


if __name__ == "__main__":
    main()
