"""Error rates and power of the gates over measured runs, in simulations with known truth.

Run: `python benchmarks/gates.py [--json] [--repetitions N]`. The tasks of a suite have different
probabilities of success. Every simulation draws tasks, then the attempts of baseline and candidate,
and asks the test behind the gates for its p-values at a nominal 5 %.

`false PASS`: of a candidate that is exactly as much worse as the margin tolerates, for a PASS of
non-inferiority. `false FAIL`: of an equal candidate, for a FAIL of superiority. `power`: PASS of
non-inferiority for an equal candidate. The ratios are of skewed costs (log-normal, sigma 1). The
last rows judge four tenants: the share of simulations in which any tenant passes or fails wrongly.
"""

import argparse
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from atdp.replay.gates.gate_settings import GateSettings, MeanGate
from atdp.replay.gates.judgement import judge_gates
from atdp.replay.gates.measured_runs import MeasuredArm, MeasuredRun, TenantRuns
from atdp.replay.gates.paired_tests import p_above
from atdp.replay.gates.ratio_bounds import ratio_contrast
from atdp.replay.verdict import Verdict

ALPHA: Final = 0.05
REPETITIONS: Final = 4000
Floats = NDArray[np.float64]
Row = dict[str, str | float]


def u_shaped(chance: np.random.Generator, tasks: int) -> Floats:
    """Most tasks are nearly always or nearly never solved, as in the published suites."""
    return chance.beta(0.4, 0.4, tasks)


def retail(chance: np.random.Generator, tasks: int) -> Floats:
    """Mean and share of mixed groups of tau-bench retail's runs."""
    return chance.beta(1.4, 0.2, tasks)


def nearly_perfect(chance: np.random.Generator, tasks: int) -> Floats:
    """Hardly any task fails, so that few tasks differ."""
    return chance.beta(30.0, 0.6, tasks)


def deterministic(chance: np.random.Generator, tasks: int) -> Floats:
    """Every attempt at a task has the same result."""
    return (chance.random(tasks) < 0.9).astype(np.float64)


SUITES: Final[Mapping[str, Callable[[np.random.Generator, int], Floats]]] = {
    "u-shaped": u_shaped,
    "retail": retail,
    "nearly perfect": nearly_perfect,
    "deterministic": deterministic,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    """One suite of tasks with a number of attempts at each."""

    suite: str
    tasks: int
    attempts: int
    margin: float = 0.05


def differences(cell: Cell, loss: float, repetitions: int, seed: int = 1) -> Floats:
    """Draw the differences of task means of a candidate that is worse by `loss` on average.

    The candidate loses a share of what the baseline solves: of whole tasks where attempts at a
    task are all the same, else of attempts. Shape (repetitions, tasks).
    """
    chance = np.random.default_rng(seed)
    draw = SUITES[cell.suite]
    share = loss / float(draw(np.random.default_rng(0), 400_000).mean())
    solved = np.stack([draw(chance, cell.tasks) for _ in range(repetitions)])
    if cell.suite == "deterministic":
        after = solved * (chance.random(solved.shape) >= share)
    else:
        after = solved * (1 - share)
    before = chance.binomial(cell.attempts, solved)
    return (chance.binomial(cell.attempts, after) - before) / cell.attempts


def rates(cell: Cell, repetitions: int) -> Row:
    """Return the error rates and the power of one cell."""

    def rejected(rows: Floats, threshold: float) -> float:
        return float(np.mean([p_above(row, threshold, reach=1.0) <= ALPHA for row in rows]))

    at_margin = differences(cell, cell.margin, repetitions)
    equal = differences(cell, 0.0, repetitions, seed=2)
    return {
        "suite": cell.suite,
        "tasks": cell.tasks,
        "attempts": cell.attempts,
        "margin": cell.margin,
        "false PASS": rejected(at_margin, -cell.margin),
        "false FAIL": rejected(-equal, 0.0),
        "power": rejected(equal, -cell.margin),
    }


def ratio_rates(tasks: int, attempts: int, margin: float, repetitions: int) -> Row:
    """Return the same for the ratio of skewed costs."""

    def costs(ratio: float, seed: int) -> Floats:
        chance = np.random.default_rng(seed)
        task = chance.lognormal(0, 1, (repetitions, tasks, 1))
        rows = [
            (task * factor * chance.lognormal(0, 0.5, (repetitions, tasks, attempts))).mean(axis=2)
            for factor in (ratio, 1.0)
        ]
        return np.stack(rows, axis=2)

    def rejected(pairs: Floats, ratio: float, sign: float) -> float:
        tests = [p_above(sign * ratio_contrast(each, ratio), 0.0) <= ALPHA for each in pairs]
        return float(np.mean(tests))

    equal = costs(1.0, seed=3)
    return {
        "suite": "cost ratio",
        "tasks": tasks,
        "attempts": attempts,
        "margin": margin,
        "false PASS": rejected(costs(1 + margin, seed=4), 1 + margin, -1.0),
        "false FAIL": rejected(equal, 1.0, 1.0),
        "power": rejected(equal, 1 + margin, -1.0),
    }


def tenant_rates(tenants: int, cell: Cell, repetitions: int) -> Row:
    """Return how often any of several tenants is judged wrongly, through the whole judgement."""

    def any_is(verdict: Verdict, loss: float, gate: MeanGate) -> float:
        drawn = [differences(cell, loss, repetitions, seed=10 + n) for n in range(tenants)]
        settings = GateSettings(metrics=(gate,), min_tasks=cell.tasks)
        found = 0
        for rows in zip(*drawn, strict=True):
            verdicts = judge_gates(
                [_tenant(f"t{number}", row) for number, row in enumerate(rows)], settings
            )
            found += any(each.verdict is verdict for each in verdicts)
        return found / repetitions

    unit = {"kind": "mean", "name": "value", "range": (-1.0, 1.0), "value": "value"}
    no_worse = MeanGate.model_validate({**unit, "margin": cell.margin})
    better = MeanGate.model_validate({**unit, "hypothesis": "superiority", "margin": 0.0})
    return {
        "suite": f"{tenants} tenants, {cell.suite}",
        "tasks": cell.tasks,
        "attempts": cell.attempts,
        "margin": cell.margin,
        "false PASS": any_is(Verdict.PASS, cell.margin, no_worse),
        "false FAIL": any_is(Verdict.FAIL, 0.0, better),
    }


def _tenant(name: str, row: Floats) -> TenantRuns:
    """Return runs whose differences are those of a row: the baseline's values are 0."""

    def arm(label: str, values: Floats) -> MeasuredArm:
        return MeasuredArm(
            runs=[
                MeasuredRun(
                    trajectory_id=f"{label}-{task}",
                    attempt=0,
                    task_id=str(task),
                    values={"value": float(value)},
                )
                for task, value in enumerate(values)
            ]
        )

    return TenantRuns(
        tenant=name, candidate=arm("candidate", row), baseline=arm("baseline", np.zeros_like(row))
    )


CELLS: Final = tuple(
    Cell(suite=suite, tasks=tasks, attempts=attempts)
    for suite in SUITES
    for tasks in (20, 50, 100, 200, 1000)
    for attempts in (1, 4)
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=REPETITIONS)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = [rates(cell, options.repetitions) for cell in CELLS]
    rows += [
        ratio_rates(tasks, attempts, 0.1, options.repetitions)
        for tasks in (20, 50, 200)
        for attempts in (1, 4)
    ]
    tenants = Cell(suite="u-shaped", tasks=50, attempts=4)
    rows.append(tenant_rates(4, tenants, max(200, options.repetitions // 4)))
    if options.json:
        print(json.dumps(rows))
        return
    print(f"{'suite':<22}{'tasks':>6}{'tries':>6}{'margin':>8}{'false PASS':>12}{'false FAIL':>12}"
          f"{'power':>8}")  # fmt: skip
    for row in rows:
        print(
            f"{row['suite']:<22}{row['tasks']:>6}{row['attempts']:>6}{row['margin']:>8}"
            f"{row['false PASS']:>12.3f}{row['false FAIL']:>12.3f}{row.get('power', '-'):>8.3}"
        )
    worst = {name: max(float(row[name]) for row in rows) for name in ("false PASS", "false FAIL")}
    power = next(
        row["power"]
        for row in rows
        if (row["suite"], row["tasks"], row["attempts"]) == ("u-shaped", 200, 4)
    )
    print(
        f"false PASS {worst['false PASS']:.3f} · false FAIL {worst['false FAIL']:.3f} · "
        f"power {power:.2f}"
    )


if __name__ == "__main__":
    main()
