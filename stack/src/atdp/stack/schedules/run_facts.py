"""The parts of a run, and the facts that they find: plain JSON values by name."""

from dataclasses import asdict
from typing import Any, Literal, Protocol, TypeAlias

from atdp.replay import Verdict
from atdp.stack.schedules.run_order import RunOrder
from atdp.stack.schedules.schedule_state import RunOutcome

Facts: TypeAlias = dict[str, Any]
"""Results of the parts so far. A run whose facts have a `verdict` needs no further evaluation."""

PartName: TypeAlias = Literal["resolve", "pin", "evaluate", "gate", "record", "publish", "tell"]
"""The parts, in their order.

- `resolve` names the versions to compare: `candidate`, `baseline`, `look`.
- `pin` pins the trajectories: `dataset`.
- `evaluate` judges: `verdict`, `reasons`, `text`, `evaluation`, `report_sha256`, `report`.
- `gate` judges measured runs too: `gates`, and the worst of both for `verdict` and its reasons.
- `record` records the report for the release gate.
- `publish` publishes the evaluation as an event.
- `tell` tells one receiver of the schedule, whose index is the fact `receiver`.
"""

NOTHING_TO_EVALUATE = "nothing_to_evaluate"
"""Reason of a run for which there is no candidate or no baseline."""


class RunParts(Protocol):
    """Makes the parts of runs. Threads share it, each with a run of its own."""

    def make(self, part: PartName, order: RunOrder, facts: Facts) -> Facts:
        """Make a part; returns the facts that are added to the earlier ones.

        A part that was interrupted is made again, so it has the same effect twice as once.
        """
        ...

    def close(self, order: RunOrder) -> None:
        """Release what the parts of a run hold; they may be made again."""
        ...


def failure(code: str, text: str) -> Facts:
    """Return the facts of a part that failed."""
    return {"verdict": Verdict.ERROR.value, "reasons": [code], "text": text}


def facts_of(outcome: RunOutcome) -> Facts:
    """Return the facts of an outcome; the inverse of `outcome_of`."""
    named = {name: value for name, value in asdict(outcome).items() if value is not None}
    return {**named, "verdict": outcome.verdict.value, "reasons": list(outcome.reasons)}


def outcome_of(facts: Facts) -> RunOutcome:
    """Return the outcome of a run whose verdict is known."""
    return RunOutcome(
        verdict=Verdict(facts["verdict"]),
        reasons=tuple(facts["reasons"]),
        text=facts["text"],
        candidate=facts.get("candidate"),
        baseline=facts.get("baseline"),
        dataset=facts.get("dataset"),
        evaluation=facts.get("evaluation"),
        report_sha256=facts.get("report_sha256"),
        report=facts.get("report"),
        gates=facts.get("gates"),
    )
