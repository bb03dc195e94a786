"""Effects of a draft on training: eligible trajectories, and token ids of model calls.

`sampled`: the trajectories are a sample of more, so shares have intervals.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from atdp.governance.preview.outcome_pairs import (
    OutcomePair,
    outcome_rows,
    reason_rows,
    token_fidelity,
)
from atdp.governance.preview.report import FidelityChange, TrainingChange
from atdp.governance.preview.shares import Share, share
from atdp.governance.preview.trial import TrialOutcome

_EXACT: Final = "exact"


def training_change(
    trajectories: Sequence[Sequence[OutcomePair]], *, sampled: bool
) -> TrainingChange:
    """Return which trajectories may be used for training under each side."""
    obstacles = [
        (
            _obstacle([pair.active for pair in pairs]),
            _obstacle([pair.draft for pair in pairs]),
        )
        for pairs in trajectories
    ]
    return TrainingChange(
        active=sum(before is None for before, _ in obstacles),
        draft=sum(after is None for _, after in obstacles),
        loses=share([(int(b is None and a is not None), 1) for b, a in obstacles], sampled=sampled),
        gains=share([(int(b is not None and a is None), 1) for b, a in obstacles], sampled=sampled),
        obstacles=reason_rows(obstacles),
    )


def _obstacle(outcomes: Sequence[TrialOutcome]) -> str | None:
    """Return the first reason why a trajectory may not be used for training, or None."""
    for outcome in outcomes:
        if not outcome.passes:
            return f"{outcome.decision}: {outcome.reason}"
        if not outcome.stamp["training_eligible"]:
            return str(outcome.stamp["eligibility_reason"])
    return None


def fidelity_change(
    trajectories: Sequence[Sequence[OutcomePair]], *, sampled: bool
) -> FidelityChange:
    """Return the token fidelity of the model calls of trajectories under each side."""
    calls = [
        [
            (token_fidelity(pair.active), token_fidelity(pair.draft))
            for pair in pairs
            if _is_call(pair.record.event)
        ]
        for pairs in trajectories
    ]

    def counted(counts: Callable[[str, str], bool]) -> Share:
        return share(
            [(sum(counts(*call) for call in each), len(each)) for each in calls], sampled=sampled
        )

    return FidelityChange(
        pairs=outcome_rows(each for pairs in calls for each in pairs),
        changes=counted(lambda before, after: before != after),
        loses_exact=counted(lambda before, after: before == _EXACT != after),
        gains_exact=counted(lambda before, after: before != _EXACT == after),
    )


def _is_call(event: Mapping[str, object] | None) -> bool:
    action = event["action"] if event is not None else None
    return isinstance(action, Mapping) and bool(action["generation"])
