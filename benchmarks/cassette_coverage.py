"""Share of a run that the recording of another run of the same task covers.

Run: `python benchmarks/cassette_coverage.py [--json] [--reads TOOL,…] [FILE…]`. The files are
results of tau-bench, one for each run of all tasks; without any, those of retail under
`../shared/data`. Each run is replayed against each other run of the same task: runs of the same
tool library are A/A, the others differ in their tools or their model. Nothing is executed.

`same calls` needs the same calls in the same order; `in any order` answers reads in any order until
the first write, `normalised` takes arguments that differ in spelling only, `pooled` has all further
runs of the task as recordings too; `with user turns` needs the user's turns to fit as well, as
`atdp replay cassette` does. Intervals are bootstrapped over tasks.
"""

import argparse
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np

from atdp.lakehouse import TrajectoryRecord
from atdp.replay.cassette.agent import RecordedAgent
from atdp.replay.cassette.cassette import Cassette, make_cassette
from atdp.replay.cassette.cassette_settings import CassetteSettings, Divergence
from atdp.replay.cassette.hermetic_run import ReplayTools, replay_recording
from atdp.replay.cassette.player import Player
from atdp.replay.cassette.recording import NotReplayable, Recording, recording_of
from atdp.replay.cassette.tool_rules import Canonicaliser, ToolRule, ToolRules
from atdp.schemas import message_from_chat

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "tau_bench_retail"
READ_WORDS = ("find_", "get_", "list_", "calculate", "count_", "check_", "think", "suggest_")
"""Beginnings of the names of retail tools that change nothing."""
SPELLING: tuple[Canonicaliser, ...] = ("spaces", "lower")


@dataclass(frozen=True, slots=True)
class Pair:
    """A recording's cassette, and another run of its task that is played against it."""

    cassette: Cassette
    played: Recording
    pool: tuple[Cassette, ...]


def read_runs(files: Sequence[Path], rules: ToolRules) -> tuple[list[Cassette], Counter[str]]:
    """Return the cassettes of all rows, and the reasons for those without one."""
    cassettes, refused = [], Counter[str]()
    for file in files:
        for number, row in enumerate(json.loads(file.read_text(encoding="utf-8"))):
            try:
                record = as_record(row, run=file.stem, number=number)
                cassettes.append(make_cassette(recording_of(record, rules, ())))
            except NotReplayable as error:
                refused[error.reason] += 1
    return cassettes, refused


def as_record(row: dict[str, Any], *, run: str, number: int) -> TrajectoryRecord:
    """Return a row of tau-bench as the lake would give it."""
    return TrajectoryRecord(
        tenant_id="tau",
        trajectory_id=f"{run}/{number}",
        attempt=0,
        task_id=str(row["task_id"]),
        group_id=None,
        session_id=None,
        status="completed",
        reward=row["reward"],
        reward_source="tau-bench",
        agent_id=run,
        prompt_version=None,
        tools_version=None,
        tool_errors=0,
        generations=(),
        messages=tuple(message_from_chat(chat) for chat in row["traj"]),
        tools_json=None,
        replay_class="approximate",
        replay_reason="sampled",
        first_offset=0,
        last_offset=0,
        kafka_partition=0,
    )


def rules_of(files: Sequence[Path], reads: Sequence[str]) -> ToolRules:
    """Return rules for every tool that the files name."""
    names = set()
    for file in files:
        for row in json.loads(file.read_text(encoding="utf-8")):
            for message in row["traj"]:
                names |= {call["function"]["name"] for call in message.get("tool_calls") or ()}
    return ToolRules(
        rules={
            name: ToolRule(
                effect="read" if name.startswith(tuple(reads)) else "write",
                arguments={"*": SPELLING, **({"thought": ("ignore",)} if name == "think" else {})},
            )
            for name in names
        }
    )


def pairs_of(cassettes: Sequence[Cassette]) -> list[Pair]:
    """Return every ordered pair of runs of one task."""
    tasks: dict[str | None, list[Cassette]] = defaultdict(list)
    for cassette in cassettes:
        tasks[cassette.recording.task_id].append(cassette)
    return [
        Pair(
            made,
            other.recording,
            tuple(each for each in group if each is not made and each is not other),
        )
        for group in tasks.values()
        for made, other in permutations(group, 2)
    ]


def first_miss(pair: Pair, policy: Divergence) -> str | None:
    """Return the tool of the first call that the cassette does not answer; None: it answers all."""
    player = Player(cassette=pair.cassette, policy=policy, pool=pair.pool)
    for call in pair.played.calls:
        if player.call(call).outcome == "miss":
            return call.tool
    return None


def same_calls(pair: Pair) -> bool:
    """Return True for the same calls in the same order."""
    ours, theirs = pair.cassette.recording.calls, pair.played.calls
    return [call.identity for call in ours] == [call.identity for call in theirs]


def share(pairs: Sequence[Pair], holds: Callable[[Pair], bool]) -> dict[str, float]:
    """Return the share of pairs for which something holds, with its 95 % interval over tasks."""
    tasks: dict[str | None, list[bool]] = defaultdict(list)
    for pair in pairs:
        tasks[pair.played.task_id].append(holds(pair))
    sums = np.array([[sum(values), len(values)] for values in tasks.values()], dtype=np.float64)
    draws = np.random.Generator(np.random.PCG64(0)).multinomial(
        len(sums), np.full(len(sums), 1 / len(sums)), size=2000
    )
    drawn = draws @ sums
    low, high = np.quantile(drawn[:, 0] / drawn[:, 1], (0.025, 0.975))
    total = sums.sum(axis=0)
    return {"share": float(total[0] / total[1]), "low": float(low), "high": float(high)}


def measure(pairs: Sequence[Pair], rules: ToolRules) -> dict[str, Any]:
    """Return all figures of some pairs."""
    settings = CassetteSettings()
    tools = ReplayTools(settings=settings, rules=rules)
    runs = {
        id(pair): replay_recording(pair.cassette, RecordedAgent(pair.played), tools)
        for pair in pairs
    }
    missed = [tool for pair in pairs if (tool := first_miss(pair, "stop_score_prefix"))]
    equal = [pair for pair in pairs if same_calls(pair)]
    compared = [
        step.agrees for run in runs.values() for step in run.steps if step.agrees is not None
    ]
    return {
        "pairs": len(pairs),
        "same calls": share(pairs, same_calls),
        "in any order": share(pairs, lambda pair: first_miss(pair, "stop_score_prefix") is None),
        "normalised": share(pairs, lambda pair: first_miss(pair, "normalised") is None),
        "pooled": share(pairs, lambda pair: first_miss(pair, "pooled_exact") is None),
        "with user turns": share(pairs, lambda pair: runs[id(pair)].status == "completed"),
        "first miss is a read": sum(rules.rules[tool].effect == "read" for tool in missed)
        / max(1, len(missed)),
        "equal prefix, same action": sum(compared) / max(1, len(compared)),
        "same calls, same reward": sum(
            pair.cassette.recording.record.reward == pair.played.record.reward for pair in equal
        )
        / max(1, len(equal)),
        "pairs with the same calls": len(equal),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("files", metavar="FILE", type=Path, nargs="*")
    parser.add_argument(
        "--reads", default=",".join(READ_WORDS), help="beginnings of names of reads"
    )
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    files = options.files or sorted(DATA.glob("tool-calling-*.json"))
    rules = rules_of(files, options.reads.split(","))
    cassettes, refused = read_runs(files, rules)
    pairs = pairs_of(cassettes)
    own = [Pair(made, made.recording, ()) for made in cassettes]
    kinds = {
        "a run against itself": own,
        "one tool library, two models": [
            pair for pair in pairs if library(pair.cassette.recording) == library(pair.played)
        ],
        "all other runs of the task": pairs,
    }
    figures = {name: measure(chosen, rules) for name, chosen in kinds.items() if chosen}
    if options.json:
        print(json.dumps({"refused": refused, **figures}, indent=2))
        return
    print(f"{len(cassettes)} recordings; not replayable: {dict(refused)}")
    for name, values in figures.items():
        print(f"\n{name} ({values['pairs']} replays)")
        for figure, value in values.items():
            if isinstance(value, dict):
                bounds = f"[{value['low']:.1%}, {value['high']:.1%}]"
                print(f"  {figure:<28}{value['share']:7.1%}  {bounds}")
            elif isinstance(value, float):
                print(f"  {figure:<28}{value:7.1%}")


def library(recording: Recording) -> str:
    """Return the tool library of a run, as its file is named (`tool-calling-l2-4o`)."""
    return recording.agent[0].rpartition("-")[0]


if __name__ == "__main__":
    main()
