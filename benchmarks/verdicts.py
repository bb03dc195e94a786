"""Error rates of the verdicts of replay evaluations, by simulation of whole evaluations.

Run: `python -m benchmarks.verdicts [--json] [--runs N] [--seed S]`. Each run samples tasks with
their difficulties, a log of a behaviour policy, and a candidate whose true value is known, and lets
`atdp.replay.replay` judge. A log has `tasks` x `attempts` trajectories of up to `horizon` decisions
with a reward of 0 or 1 at the end. The candidate differs in style (ratios that have nothing to do
with the reward) and, where a gain or a loss is named, in the last decision, on which the reward
depends. `ESS` is the expected effective sample size as a share of the log.

`false PASS`: PASS of a candidate whose true difference does not clear the threshold. `false FAIL`:
FAIL of one that is not worse. `coverage`: share of the intervals of the difference (nominal 90 %)
that contain the truth, where evidence is sufficient. `refused`: share of runs without sufficient
evidence. In a row with several looks the log grows from look to look, each look with sufficient
evidence pays its share of alpha, and the first PASS or FAIL counts.
"""

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Final

import numpy as np

from atdp.replay import (
    THIN_EVIDENCE,
    PinnedDataset,
    PolicyVersion,
    ReplayConfig,
    ReplayReport,
    Verdict,
    replay,
)
from atdp.replay.estimators import Floats
from atdp.replay.testing import SampledGeneration, SampledTrajectory

SEED: Final = 11
TOKENS: Final = 8
"""Tokens of one decision."""
LOGPROB: Final = -2.0
"""Logged log-probability of each token."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Scenario:
    """A kind of log and candidate; `gain` is the true difference, exactly."""

    name: str
    tasks: int
    attempts: int = 4
    horizon: int = 3
    ess: float = 0.5
    rate: float = 0.6
    gain: float = 0.0
    redacted: tuple[float, float] = (0.0, 0.0)
    """Probability that a failed, and a successful, trajectory has a redaction inside."""
    looks: int = 1
    """Evaluations of a log that grows by `tasks` before each."""
    config: dict[str, object] = field(default_factory=dict)

    @property
    def clears(self) -> bool:
        """True when a PASS is right."""
        return self.gain > ReplayConfig(**self.config).threshold  # type: ignore[arg-type]

    @property
    def harms(self) -> bool:
        """True when a FAIL is right."""
        return self.gain < min(0.0, ReplayConfig(**self.config).threshold)  # type: ignore[arg-type]


def scenarios() -> tuple[Scenario, ...]:
    at_margin = {"mode": "non_inferiority", "margin": 0.05}
    grid = tuple(
        Scenario(name="equal", tasks=tasks, attempts=attempts, ess=ess, horizon=horizon, rate=rate)
        for tasks, attempts, ess, horizon, rate in (
            (12, 4, 0.95, 1, 0.3), (12, 4, 0.95, 3, 0.9), (25, 4, 0.5, 3, 0.6),
            (50, 1, 0.95, 3, 0.2), (50, 4, 0.5, 8, 0.8), (50, 4, 0.2, 3, 0.5),
            (100, 1, 0.5, 1, 0.1), (100, 4, 0.1, 3, 0.7), (200, 1, 0.2, 8, 0.9),
        )
    )  # fmt: skip
    return (
        *grid,
        Scenario(name="equal, other style", tasks=100, ess=0.02),
        Scenario(name="equal, failures redacted", tasks=100, redacted=(0.3, 0.02)),
        Scenario(name="equal, five looks", tasks=25, looks=5),
        Scenario(name="at the margin", tasks=100, gain=-0.05, config=at_margin),
        Scenario(name="at the margin, five looks", tasks=40, gain=-0.05, looks=5, config=at_margin),
        Scenario(
            name="at the margin, thin first",
            tasks=5,
            gain=-0.05,
            ess=0.3,
            looks=10,
            config=at_margin,
        ),
        Scenario(name="worse", tasks=100, gain=-0.15),
        Scenario(name="better", tasks=100, gain=0.15),
        Scenario(name="better, other style", tasks=100, gain=0.15, ess=0.02),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Log:
    """A sampled log, with the log ratio of the candidate for each decision, by its first token."""

    trajectories: list[SampledTrajectory]
    log_ratio: list[float]


@dataclass(frozen=True, slots=True)
class _Scorer:
    """Scores of a policy whose log ratio for each decision is given."""

    log_ratio: Sequence[float] | None

    def token_logprobs(self, sequences: Sequence[Sequence[int]]) -> list[Floats]:
        return [
            np.full(len(s), LOGPROB + (self.log_ratio[s[0]] / TOKENS if self.log_ratio else 0.0))
            for s in sequences
        ]


def sample_log(scenario: Scenario, rng: np.random.Generator, log: _Log) -> None:
    """Append the trajectories of `scenario.tasks` new tasks to the log.

    The behaviour takes the last action with probability 1/2, the candidate with `chance`. Taking it
    raises the probability of the reward by `lift` in every task, so that the true gain is
    lift (chance - 1/2).
    """
    lift = 0.8 if scenario.gain else 0.0
    chance = 0.5 + (scenario.gain / lift if lift else 0.0)
    of_action = 1.0 / (4.0 * (chance - 0.5) ** 2 + 1.0)
    for _ in range(scenario.tasks):
        spread = rng.beta(scenario.rate, 1.0 - scenario.rate)
        first = len(log.trajectories)
        task = f"task-{first}"
        mean_variance = np.log(max(1.0, of_action / scenario.ess))
        for attempt in range(scenario.attempts):
            length = int(rng.integers((scenario.horizon + 1) // 2, scenario.horizon + 1))
            taken = rng.random() < 0.5
            solved = (1.0 - lift) * spread + lift * taken
            reward = float(rng.random() < solved)
            variance = mean_variance / length
            ratios = rng.normal(-variance / 2.0, np.sqrt(variance), length)
            ratios[-1] += np.log(2.0 * (chance if taken else 1.0 - chance))
            redacted = rng.random() < scenario.redacted[int(reward)]
            log.trajectories.append(
                SampledTrajectory(
                    tenant_id="acme",
                    trajectory_id=f"{first}-{attempt}",
                    task_id=task,
                    reward=reward,
                    generations=tuple(
                        _generation(len(log.log_ratio) + t, redacted=redacted)
                        for t in range(length)
                    ),
                )
            )
            log.log_ratio.extend(ratios.tolist())


def _generation(index: int, *, redacted: bool) -> SampledGeneration:
    return SampledGeneration(
        event_id=str(index),
        prompt_token_ids=(index,),
        output_token_ids=(0,) * TOKENS,
        output_logprobs=(LOGPROB,) * TOKENS,
        token_fidelity="context_changed" if redacted else "exact",
    )


def judge(scenario: Scenario, log: _Log, *, look: int) -> ReplayReport:
    """Evaluate the candidate on the log."""
    settings: dict[str, object] = {**scenario.config, **({"look": look} if look > 1 else {})}

    @contextmanager
    def open_scorer(policy: PolicyVersion, _: ReplayConfig) -> Iterator[_Scorer]:
        yield _Scorer(log.log_ratio if policy.version == "v2" else None)

    return replay(
        PinnedDataset(name="simulated", trajectories=log.trajectories, snapshots={}),
        candidate=PolicyVersion(model="simulated", version="v2", url=""),
        baseline=PolicyVersion(model="simulated", version="v1", url=""),
        config=ReplayConfig(**settings),  # type: ignore[arg-type]
        open_scorer=open_scorer,
    )


def is_thin(report: ReplayReport) -> bool:
    """Return True when the evidence was too thin for a comparison, which spends no look."""
    return not THIN_EVIDENCE.isdisjoint(reason.code for reason in report.reasons)


@dataclass(kw_only=True, slots=True)
class Row:
    """Counts over the runs of one scenario."""

    scenario: Scenario
    runs: int = 0
    verdicts: Counter[Verdict] = field(default_factory=Counter)
    judged: int = 0
    covered: int = 0

    def add(self, report: ReplayReport) -> None:
        """Count an interval, where the evidence was sufficient."""
        decisive = report.evaluation.decisive(report.inputs.config)
        if decisive is None or is_thin(report):
            return
        self.judged += 1
        between = decisive.difference.lower <= self.scenario.gain <= decisive.difference.upper
        self.covered += between

    @property
    def figures(self) -> dict[str, float | None]:
        """Shares; None where there is no case."""
        wrong = not self.scenario.clears
        return {
            "PASS": self.verdicts[Verdict.PASS] / self.runs,
            "FAIL": self.verdicts[Verdict.FAIL] / self.runs,
            "false PASS": self.verdicts[Verdict.PASS] / self.runs if wrong else None,
            "false FAIL": None if self.scenario.harms else self.verdicts[Verdict.FAIL] / self.runs,
            "refused": 1.0 - self.judged / (self.runs * self.scenario.looks),
            "coverage": self.covered / self.judged if self.judged else None,
        }


def simulate(scenario: Scenario, *, runs: int, seed: int) -> Row:
    """Judge `runs` logs of the scenario."""
    row = Row(scenario=scenario)
    for run in range(runs):
        rng = np.random.default_rng([seed, run])
        log = _Log(trajectories=[], log_ratio=[])
        verdict, look = Verdict.INCONCLUSIVE, 1
        for _ in range(scenario.looks):
            sample_log(scenario, rng, log)
            report = judge(scenario, log, look=look)
            row.add(report)
            look += not is_thin(report)
            if verdict is Verdict.INCONCLUSIVE:
                verdict = report.verdict
        row.runs += 1
        row.verdicts[verdict] += 1
    return row


def worst(rows: Sequence[Row], figure: str, *, highest: bool) -> float:
    values = [value for row in rows if (value := row.figures[figure]) is not None]
    return max(values) if highest else min(values)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=500, help="runs of each scenario")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = []
    if not options.json:
        print(f"{'candidate':<26}{'tasks':>6}{'att.':>5}{'T':>3}{'ESS':>6}{'rate':>6}", end="")
        print(f"{'PASS':>8}{'FAIL':>8}{'refused':>9}{'coverage':>10}")
    for scenario in scenarios():
        row = simulate(scenario, runs=options.runs, seed=options.seed)
        rows.append(row)
        if not options.json:
            print(_line(row), flush=True)
    if options.json:
        print(json.dumps([asdict(row.scenario) | row.figures for row in rows]))
        return
    print(
        f"false PASS {worst(rows, 'false PASS', highest=True):.3f} · "
        f"false FAIL {worst(rows, 'false FAIL', highest=True):.3f} · "
        f"coverage {worst(rows, 'coverage', highest=False):.3f}"
    )


def _line(row: Row) -> str:
    of, figures = row.scenario, row.figures
    coverage = figures["coverage"]
    return (
        f"{of.name:<26}{of.tasks:>6}{of.attempts:>5}{of.horizon:>3}{of.ess:>6.2f}{of.rate:>6.2f}"
        f"{figures['PASS']:>8.3f}{figures['FAIL']:>8.3f}{figures['refused']:>9.2f}"
        + (f"{coverage:>10.3f}" if coverage is not None else f"{'-':>10}")
    )


if __name__ == "__main__":
    main()
