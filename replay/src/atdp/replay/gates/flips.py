"""Flips: attempts at the same task that one of the two solved and the other one did not.

The attempts at a task are paired in their order. A pair is fixed, broken or the same.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from atdp.replay.gates.measured_runs import MeasuredRun, RunKey, TenantRuns

Change = Literal["fixed", "broken"]
Solved = Callable[[MeasuredRun], bool | None]
"""Says whether a run is a success; None: its value was not measured."""
Calls = Sequence[tuple[int, str, str]]
"""The tool calls of a trajectory in order: step, tool, arguments in canonical form."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Flip:
    """A pair of attempts with different results."""

    task_id: str
    change: Change
    baseline_trajectory: str
    baseline_attempt: int
    candidate_trajectory: str
    candidate_attempt: int
    diverges_at: int | None = None
    """The first step of the candidate with another tool call than the baseline; None: their tool
    calls are equal, or are not recorded."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FlipTable:
    """All pairs of one tenant: the flips, and the number of the others."""

    flips: tuple[Flip, ...]
    same_solved: int
    same_failed: int
    unmeasured: int
    """Pairs of which one has no value."""
    unpaired: int
    """Attempts without a partner, since the other one tried the task less often or not at all."""

    def count(self, change: Change) -> int:
        """Return the number of flips of one kind."""
        return sum(flip.change == change for flip in self.flips)


def find_flips(runs: TenantRuns, solved: Solved) -> FlipTable:
    """Return the flips in order of the task, and the number of the other pairs."""
    before, after = runs.baseline.by_task(), runs.candidate.by_task()
    flips: list[Flip] = []
    counts: Counter[str] = Counter()
    for task in sorted(before.keys() | after.keys()):
        pairs = list(zip(before.get(task, ()), after.get(task, ()), strict=False))
        counts["unpaired"] += abs(len(before.get(task, ())) - len(after.get(task, ())))
        for old, new in pairs:
            results = (solved(old), solved(new))
            if None in results:
                counts["unmeasured"] += 1
            elif results[0] == results[1]:
                counts["same_solved" if results[0] else "same_failed"] += 1
            else:
                flips.append(_flip(task, old, new, "fixed" if results[1] else "broken"))
    return FlipTable(
        flips=tuple(flips),
        same_solved=counts["same_solved"],
        same_failed=counts["same_failed"],
        unmeasured=counts["unmeasured"],
        unpaired=counts["unpaired"],
    )


def first_divergence(baseline: Calls, candidate: Calls) -> int | None:
    """Return the step of the candidate at which its tool calls first differ from the baseline's.

    Where the candidate stopped earlier, it is the step of its last call.
    """
    for old, new in zip(baseline, candidate, strict=False):
        if old[1:] != new[1:]:
            return new[0]
    if len(candidate) > len(baseline):
        return candidate[len(baseline)][0]
    if len(candidate) < len(baseline):
        return candidate[-1][0] if candidate else 0
    return None


def calls_of(flip: Flip, calls: Mapping[RunKey, Calls]) -> tuple[Calls, Calls]:
    """Return the tool calls of both trajectories of a flip."""
    return (
        calls.get((flip.baseline_trajectory, flip.baseline_attempt), ()),
        calls.get((flip.candidate_trajectory, flip.candidate_attempt), ()),
    )


def _flip(task: str, old: MeasuredRun, new: MeasuredRun, change: Change) -> Flip:
    return Flip(
        task_id=task,
        change=change,
        baseline_trajectory=old.trajectory_id,
        baseline_attempt=old.attempt,
        candidate_trajectory=new.trajectory_id,
        candidate_attempt=new.attempt,
    )
