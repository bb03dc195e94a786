"""Judgements on an event, a step or a trajectory: rewards, feedback of people, annotations.

A judgement is an event of its own and may arrive long after its target. A missing reward is the
absence of an event, not a reward of 0.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, TypeAlias

TargetKind: TypeAlias = Literal["event", "step", "trajectory", "unknown"]
FeedbackType: TypeAlias = Literal[
    "rating", "thumbs", "correction", "accept", "edit", "reject", "comment", "other", "unknown"
]


JUDGE_PREFIX: Final = "judge:"
"""Names of annotations that hold a verdict begin with it; the name of the judge follows."""


def is_judgement(kind: str, annotation_name: str | None) -> bool:
    """Return whether an event rewards, or is evidence of a reward as a person or a judge gives it.

    `annotation_name` is the name of an annotation; None for every other kind.
    """
    if kind == "annotation":
        return annotation_name is not None and annotation_name.startswith(JUDGE_PREFIX)
    return kind in {"reward", "feedback"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Reward:
    """A reward for an event, a step or the trajectory: a value, a critique, or both.

    `token_start` (inclusive) and `token_end` (exclusive) are a span of the target generation's
    output tokens, as its producer counts them: where governance replaced tokens, the places are
    moved by `Generation.token_splices`. With `compared_to`, an event or trajectory of the target's
    kind, a value above 0 means that the target is preferred to it. A derived reward names its
    `rule` and, in `evidence`, the ids of the events that it was derived from.
    """

    target_kind: TargetKind = "trajectory"
    target_event_id: str | None = None
    target_step: int | None = None
    token_start: int | None = None
    token_end: int | None = None
    compared_to: str | None = None
    value: float | None = None
    label: str | None = None
    scale: str | None = None
    range_min: float | None = None
    range_max: float | None = None
    critique: str | None = None
    dimension: str = "outcome"
    source_name: str
    evaluator_version: str | None = None
    rule: str | None = None
    evidence: tuple[str, ...] = ()
    confidence: float | None = None
    observed_at: datetime | None = None
    observed_at_nanos: int | None = None
    supersedes: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Feedback:
    """A person's reaction to an event, a step or the trajectory."""

    target_kind: TargetKind = "trajectory"
    target_event_id: str | None = None
    target_step: int | None = None
    type: FeedbackType
    value: float | None = None
    scale: str | None = None
    range_min: float | None = None
    range_max: float | None = None
    dimension: str | None = None
    text: str | None = None
    actor: str | None = None
    observed_at: datetime | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Annotation:
    """A label given afterwards; `value_json` is JSON text."""

    target_kind: TargetKind = "trajectory"
    target_event_id: str | None = None
    target_step: int | None = None
    name: str
    value_json: str | None = None
    annotator: str | None = None
    annotator_version: str | None = None
    observed_at: datetime | None = None
