"""The error rate of replay's bounds for a loss that the log hardly shows, by simulation.

Run: `python -m benchmarks.unseen_actions [--json] [--runs N]`. In a share of the tasks
there is an answer that always fails, which the candidate gives more or less often than the log.
Every other answer succeeds in 80 of 100 attempts. `short` is the share of trajectories that end
with success before they come to the answer. `in the log` is the expected number of tasks with the
failing answer. Logs whose weights the release gate would refuse are not counted.

`above` is the share of the intervals whose lower bound is above the true difference: each of them
would pass a candidate that is worse than the tolerated loss. `below` is the share of those whose
upper bound is below it. `ignored` is `above` with `missing: ignorable`, which assumes that what the
log lacks is like the rest, and does not cut weights. The nominal rate is `alpha`, the part of the
error that the first, second or third look may spend.
"""

import argparse
import json
from dataclasses import dataclass
from typing import Final

import numpy as np

from atdp.replay import ReplayConfig
from atdp.replay.bounded_estimates import bounded_estimates
from atdp.replay.bounded_returns import all_scored
from atdp.replay.diagnostics import diagnose
from atdp.replay.estimators import Bools, Floats, LoggedReturns
from atdp.replay.release_gate import thin_weights
from atdp.replay.weight_limit import with_weight_limit

RIGHT: Final = 0.8
"""Probability of success of every answer except the failing one."""
LOOKS: Final = (1, 2, 3)


@dataclass(frozen=True, slots=True)
class Habit:
    """An answer that fails: the share of the tasks where it is possible, and its probabilities.

    `short` is the share of trajectories that succeed at a decision before it, and end there.
    """

    tasks: int
    attempts: int
    share: float
    behaviour: float
    candidate: float
    short: float = 0.0

    @property
    def truth(self) -> float:
        """The difference in value, candidate minus behaviour."""
        return -(1.0 - self.short) * self.share * RIGHT * (self.candidate - self.behaviour)

    @property
    def logged(self) -> float:
        """The expected number of tasks in which the log holds the answer."""
        given = (1.0 - self.short) * self.behaviour
        return self.tasks * self.share * (1.0 - (1.0 - given) ** self.attempts)


HABITS: Final = (
    Habit(50, 1, 0.3, 0.01, 0.05), Habit(100, 1, 0.3, 0.01, 0.2), Habit(100, 1, 0.5, 0.005, 0.4),
    Habit(40, 4, 0.3, 0.01, 0.2), Habit(100, 1, 0.3, 0.03, 0.5), Habit(40, 4, 0.1, 0.03, 0.5),
    Habit(100, 1, 1.0, 0.03, 0.1), Habit(40, 4, 0.1, 0.5, 0.9), Habit(100, 1, 0.3, 0.1, 0.5),
    Habit(400, 1, 1.0, 0.001, 0.15), Habit(100, 1, 1.0, 0.02, 0.3), Habit(200, 1, 0.5, 0.02, 0.3),
    Habit(60, 1, 1.0, 0.05, 0.3), Habit(50, 4, 0.5, 0.7, 0.1), Habit(400, 1, 1.0, 0.9, 0.3),
    Habit(100, 1, 1.0, 0.999, 0.1, short=0.5), Habit(400, 1, 1.0, 0.01, 0.4, short=0.5),
    Habit(50, 4, 1.0, 0.99, 0.3, short=0.5),
)  # fmt: skip


def sample(habit: Habit, rng: np.random.Generator) -> tuple[LoggedReturns, LoggedReturns]:
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
    short = rng.random(ratio.size) < habit.short
    return _log(ratio, reward, short), _log(np.zeros(ratio.size), reward, short)


def _log(log_ratio: Floats, reward: Floats, short: Bools) -> LoggedReturns:
    """Return a log with the answer at the second decision."""
    return LoggedReturns(
        log_ratio=np.stack([np.zeros(short.size), np.where(short, 0.0, log_ratio)], axis=1),
        reward=np.stack([np.where(short, 1.0, 0.0), np.where(short, 0.0, reward)], axis=1),
        mask=np.stack([np.ones(short.size, dtype=bool), ~short], axis=1),
    )


@dataclass(kw_only=True, slots=True)
class Misses:
    """Counts of the logs that the gate would not refuse, and of the bounds that miss."""

    judged: int = 0
    above: int = 0
    """Lower bounds above the truth."""
    below: int = 0
    """Upper bounds below the truth."""

    def share(self, count: int) -> float:
        """Return a count as a share of the judged logs; 0 for none."""
        return count / max(self.judged, 1)


def measure(habit: Habit, config: ReplayConfig, *, runs: int, seed: int = 1) -> Misses:
    """Return the misses over `runs` logs."""
    misses, codes = Misses(), np.repeat(np.arange(habit.tasks), habit.attempts)
    for run in range(runs):
        candidate, baseline = (
            all_scored(with_weight_limit(each, config))
            for each in sample(habit, np.random.default_rng([seed, run]))
        )
        if thin_weights("candidate", diagnose(candidate.scored), config):
            continue
        estimates = bounded_estimates(
            candidate,
            baseline,
            codes=codes,
            state_values=np.zeros((codes.size, 2)),
            config=config,
        )
        decisive = next(each for each in estimates if each.name == config.decisive_estimate)
        misses.judged += 1
        misses.above += decisive.difference.lower > habit.truth
        misses.below += decisive.difference.upper < habit.truth
    return misses


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000, help="logs of each kind")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = []
    if not options.json:
        print(
            f"{'tasks':>6}{'att.':>5}{'short':>7}{'loss':>8}{'in the log':>12}{'look':>6}", end=""
        )
        print(f"{'alpha':>8}{'logs':>7}{'above':>8}{'below':>8}{'ignored':>10}")
    for habit in HABITS:
        for look in LOOKS:
            config = ReplayConfig(look=look)
            bounded = measure(habit, config, runs=options.runs)
            ignored = measure(
                habit, ReplayConfig(look=look, missing="ignorable"), runs=options.runs
            )
            row = (habit.tasks, habit.attempts, habit.short, -habit.truth, habit.logged, look,
                   config.spent_alpha, bounded.judged, bounded.share(bounded.above),
                   bounded.share(bounded.below), ignored.share(ignored.above))  # fmt: skip
            rows.append(row)
            if not options.json:
                print(
                    "{:>6}{:>5}{:>7.1f}{:>8.3f}{:>12.2f}{:>6}{:>8.4f}{:>7}{:>8.3f}{:>8.3f}{:>10.3f}".format(
                        *row
                    )
                )
    if options.json:
        print(json.dumps(rows))
        return
    print(f"misses {max(max(row[8:10]) / row[6] for row in rows):.1f} × alpha in the worst row")


if __name__ == "__main__":
    main()
