"""Coverage of the approximate intervals of a difference in value, over a grid, by simulation.

Run: `python -m benchmarks.interval_coverage [--json] [--runs N] [--estimator NAME] [--alpha A]`.
The grid is tasks x attempts x effective sample size x decisions. In each cell there are logs of
several kinds and rates of success:

- `style`: the ratios of the candidate have nothing to do with the reward;
- `tasks`: likewise, and three tasks of ten carry most of the difference in style;
- `better`, `worse`: the candidate prefers an action that raises, or lowers, the reward;
- `rare`: the behaviour takes the better action once in ten times;
- `partial`: as `better`, with rewards between 0 and 1, most of them small.

Difficulties of tasks are Beta-distributed, most of them near 0 or 1. A log counts where the release
gate would not refuse its weights. A row pools kinds and rates; `below` and `above` are the shares
of intervals that lie wholly below and above the truth (nominal: alpha each), and `worst` is the
largest such share of a single kind and rate with at least 100 logs, where chance adds up to 0.05.
"""

import argparse
import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np

from atdp.replay import ReplayConfig
from atdp.replay.diagnostics import diagnose
from atdp.replay.estimators import Floats, LoggedReturns
from atdp.replay.intervals import Interval
from atdp.replay.release_gate import thin_weights
from atdp.replay.unseen_share import unseen_share, with_unseen_share
from atdp.replay.value_estimates import ratio_estimate
from atdp.replay.weight_limit import with_weight_limit

KINDS: Final = ("style", "tasks", "better", "worse", "rare", "partial")
RATES: Final = (0.05, 0.3, 0.6, 0.95)
SPREAD: Final = 1.5
"""Sum of the parameters of the Beta distribution of difficulties."""
EFFECT: Final = {"better": 1.0, "worse": -1.0, "rare": 1.0, "partial": 1.0}
"""Log odds of the reward that the preferred action adds."""


@dataclass(frozen=True, slots=True)
class Cell:
    """Sizes of a log; `ess` is the expected share of the effective sample size."""

    tasks: int
    attempts: int
    ess: float
    horizon: int


@dataclass(frozen=True, slots=True)
class World:
    """A kind of log, with the probabilities of the preferred action."""

    kind: str
    rate: float
    behaviour: float
    candidate: float
    style: float
    """Variance of a trajectory's log ratio beside that of the action."""

    @property
    def effect(self) -> float:
        return EFFECT.get(self.kind, 0.0)

    @property
    def truth(self) -> float:
        """The difference in value, candidate minus behaviour."""
        without, with_it = (self._mean(action) for action in (0.0, 1.0))
        return (self.candidate - self.behaviour) * (with_it - without)

    def _mean(self, action: float) -> float:
        chances = self.chances(_difficulties(self.rate), np.full(1, action))
        if self.kind == "partial":
            odds = chances / (1.0 - chances) / 3.0
            return float((odds / (odds + 1.0)).mean())
        return float(chances.mean())

    def chances(self, difficulties: Floats, actions: Floats) -> Floats:
        """Return the probability of success, given the actions."""
        odds = difficulties / (1.0 - difficulties) * np.exp(self.effect * (actions - 0.5))
        return np.asarray(odds / (1.0 + odds), dtype=np.float64)

    def rewards(self, chances: Floats, rng: np.random.Generator) -> Floats:
        """Draw rewards."""
        drawn = rng.random(chances.shape)
        if self.kind == "partial":
            return drawn ** (1.0 / np.maximum(chances / (1.0 - chances) / 3.0, 1e-3))
        return (drawn < chances).astype(np.float64)


@cache
def _difficulties(rate: float) -> Floats:
    rng = np.random.default_rng(0)
    return _draw_difficulties(rate, rng, 400_000)


def _draw_difficulties(rate: float, rng: np.random.Generator, size: int) -> Floats:
    drawn = rng.beta(rate * SPREAD, (1.0 - rate) * SPREAD, size)
    return np.clip(drawn, 1e-6, 1.0 - 1e-6)


def world_of(kind: str, rate: float, ess: float) -> World:
    """Return the world in which the weights have this effective sample size."""
    if kind in ("style", "tasks"):
        return World(kind, rate, 0.5, 0.5, -np.log(ess))
    behaviour = 0.1 if kind == "rare" else 0.5
    most = max(ess, 0.15) if kind == "rare" else max(np.sqrt(ess), 0.8)
    # E[w²] = 1/most is a quadratic equation for the candidate's probability.
    candidate = behaviour + np.sqrt(behaviour * (1.0 - behaviour) * (1.0 / most - 1.0))
    return World(kind, rate, behaviour, float(candidate), max(0.0, np.log(most / ess)))


def sample(
    world: World, cell: Cell, rng: np.random.Generator
) -> tuple[LoggedReturns, LoggedReturns]:
    """Draw a log, and return it for the candidate and for the behaviour policy."""
    n = cell.tasks * cell.attempts
    codes = np.repeat(np.arange(cell.tasks), cell.attempts)
    actions = (rng.random(n) < world.behaviour).astype(np.float64)
    chances = world.chances(_draw_difficulties(world.rate, rng, cell.tasks)[codes], actions)
    lengths = rng.integers((cell.horizon + 1) // 2, cell.horizon + 1, n)
    mask = np.arange(cell.horizon) < lengths[:, None]
    last = np.arange(cell.horizon) == lengths[:, None] - 1
    reward = np.where(last, world.rewards(chances, rng)[:, None], 0.0)
    variance = np.full(n, world.style)
    if world.kind == "tasks":
        variance *= np.where(rng.random(cell.tasks) < 0.3, 2.0, 0.57)[codes]
    variance = (variance / lengths)[:, None]
    ratio = np.where(mask, rng.normal(-variance / 2.0, np.sqrt(variance), mask.shape), 0.0)
    of_action = np.where(
        actions > 0.0,
        world.candidate / world.behaviour,
        (1.0 - world.candidate) / (1.0 - world.behaviour),
    )
    ratio += np.where(last, np.log(of_action)[:, None], 0.0)
    return (
        LoggedReturns(log_ratio=ratio, reward=reward, mask=mask),
        LoggedReturns(log_ratio=np.zeros_like(ratio), reward=reward, mask=mask),
    )


@dataclass(kw_only=True, slots=True)
class Misses:
    """Counts of logs and of intervals that miss the truth."""

    logs: int = 0
    judged: int = 0
    below: int = 0
    above: int = 0

    def add(self, interval: Interval, truth: float) -> None:
        """Count an interval."""
        self.judged += 1
        self.below += interval.upper < truth
        self.above += interval.lower > truth


def config_of(estimator: str, alpha: float) -> ReplayConfig:
    """Return the configuration whose first look leaves out `alpha` on each side."""
    return ReplayConfig(estimator=estimator, alpha=2.0 * alpha)  # type: ignore[arg-type]


def measure(world: World, cell: Cell, config: ReplayConfig, *, runs: int, seed: int) -> Misses:
    """Return the misses over `runs` logs."""
    misses, truth = Misses(), world.truth
    codes = np.repeat(np.arange(cell.tasks), cell.attempts)
    for run in range(runs):
        rng = np.random.default_rng([seed, run])
        candidate, baseline = (with_weight_limit(each, config) for each in sample(world, cell, rng))
        misses.logs += 1
        if cell.tasks >= config.min_tasks and not thin_weights(
            "candidate", diagnose(candidate), config
        ):
            estimate = ratio_estimate(
                config.estimator,
                candidate,
                baseline,
                codes=codes,
                state_values=np.zeros(candidate.mask.shape),
                config=config,
            )
            bounded = with_unseen_share(
                estimate,
                candidate=unseen_share(candidate, codes, alpha=config.spent_alpha),
                baseline=unseen_share(baseline, codes, alpha=config.spent_alpha),
                config=config,
            )
            misses.add(bounded.difference, truth)
    return misses


def cells() -> Iterator[Cell]:
    """Return the cells in which a log can have enough weight."""
    least = ReplayConfig().min_ess
    for tasks, attempts, ess, horizon in itertools.product(
        (12, 25, 50, 100, 200), (1, 4), (0.95, 0.5, 0.2, 0.1), (1, 3, 8)
    ):
        if tasks * attempts * ess >= 0.8 * least:
            yield Cell(tasks, attempts, ess, horizon)


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """The misses in one cell, as shares of the judged logs."""

    cell: Cell
    judged: int
    below: float
    above: float
    worst: float

    @property
    def coverage(self) -> float:
        """The share of intervals that contain the truth."""
        return 1.0 - self.below - self.above


def measure_cell(cell: Cell, config: ReplayConfig, *, runs: int, seed: int = 5) -> Row:
    """Return the pooled misses over all kinds and rates."""
    total, worst = Misses(), 0.0
    for number, (kind, rate) in enumerate(itertools.product(KINDS, RATES)):
        if kind == "rare" and cell.horizon > 1:
            continue
        world = world_of(kind, rate, cell.ess)
        misses = measure(world, cell, config, runs=runs, seed=seed + number)
        total.judged += misses.judged
        total.below += misses.below
        total.above += misses.above
        if misses.judged >= 100:
            worst = max(worst, misses.below / misses.judged, misses.above / misses.judged)
    judged = max(total.judged, 1)
    return Row(
        cell=cell,
        judged=total.judged,
        below=total.below / judged,
        above=total.above / judged,
        worst=worst,
    )


def print_rows(config: ReplayConfig, *, runs: int) -> list[Row]:
    """Measure all cells and print them."""
    print(f"{'tasks':>6}{'att.':>5}{'ESS':>6}{'T':>3}{'logs':>8}", end="")
    print(f"{'below':>8}{'above':>8}{'coverage':>10}{'worst':>8}")
    rows = []
    for cell in cells():
        row = measure_cell(cell, config, runs=runs)
        rows.append(row)
        print(
            f"{cell.tasks:>6}{cell.attempts:>5}{cell.ess:>6.2f}{cell.horizon:>3}{row.judged:>8,}"
            f"{row.below:>8.3f}{row.above:>8.3f}{row.coverage:>10.3f}{row.worst:>8.3f}",
            flush=True,
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=300, help="logs of each kind and rate")
    parser.add_argument("--estimator", default=ReplayConfig().estimator)
    parser.add_argument("--alpha", type=float, default=0.05, help="left out on each side")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    config = config_of(options.estimator, options.alpha)
    if options.json:
        rows = [measure_cell(cell, config, runs=options.runs) for cell in cells()]
        print(json.dumps([[*_numbers(row)] for row in rows]))
        return
    rows = print_rows(config, runs=options.runs)
    print(f"coverage {min(row.coverage for row in rows):.3f} in the worst cell")


def _numbers(row: Row) -> tuple[float, ...]:
    cell = row.cell
    sizes = (cell.tasks, cell.attempts, cell.ess, cell.horizon)
    return (*sizes, row.judged, row.below, row.above, row.worst)


if __name__ == "__main__":
    main()
