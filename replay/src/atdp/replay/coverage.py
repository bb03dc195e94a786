"""Coverage: the logged decisions that have a valid importance weight, and reasons for the others.

A weight needs the sampler's own log-probability of every token, over the distribution that the
engine will be asked for again: temperature 1 and full support. Truncated sampling (top-p, top-k,
min-p) gives probability zero to tokens that the candidate may choose, and a penalty, a bias or a
grammar changes the draw behind the logged numbers. Such a decision, and one whose sampling was not
recorded, is *uncovered*: it gets no weight, and none is estimated for it. One uncovered decision
leaves the whole trajectory without a weight.

The population of an evaluation is what the candidate has not learned from. Of it, a trajectory is
*scored* (valid weights and a reward), *unscored* (a reward, but no valid weight) or *unrewarded*.
Unscored trajectories are not missing at random: a redaction inside a session often comes with a
failure. Therefore they enter the estimates by bounds (`atdp.replay.bounded_returns`). Unrewarded
ones are left out, as if chance alone decided who rates.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal

from atdp.lakehouse import (
    AdmissionRules,
    GenerationFacts,
    InadmissibleReason,
    why_inadmissible,
)
from atdp.replay.errors import ReplayDataError
from atdp.replay.records import LoggedGeneration, LoggedTrajectory

Uncovered = Literal[
    "context_broken",
    "prefix_broken",
    "no_token_ids",
    "no_logprobs",
    "length_mismatch",
    "no_trainable_token",
    "temperature",
    "truncated_support",
    "altered_draw",
    "sampling_unknown",
]
SetAside = Literal[
    "uncovered_decision", "no_reward", "no_generation", "trained_on", "task_trained_on"
]
TrajectoryKey = tuple[str, str, int]
"""Tenant, trajectory, attempt."""

_UNSCORED: Final[tuple[SetAside, ...]] = ("uncovered_decision", "no_generation")

_UNCOVERED: Mapping[InadmissibleReason, Uncovered] = {
    InadmissibleReason.CONTEXT_BROKEN: "context_broken",
    InadmissibleReason.PREFIX_BROKEN: "prefix_broken",
    InadmissibleReason.NO_TOKEN_IDS: "no_token_ids",
    InadmissibleReason.TOKENS_NOT_EXACT: "no_token_ids",
    InadmissibleReason.NO_LOGPROBS: "no_logprobs",
    InadmissibleReason.LOGPROBS_LENGTH: "length_mismatch",
    InadmissibleReason.LOSS_MASK_LENGTH: "length_mismatch",
    InadmissibleReason.IMPOSSIBLE_LOGPROBS: "no_logprobs",
    InadmissibleReason.NO_TRAINABLE_TOKEN: "no_trainable_token",
    InadmissibleReason.SAMPLING_UNKNOWN: "sampling_unknown",
    InadmissibleReason.TEMPERATURE: "temperature",
    InadmissibleReason.TRUNCATED_SUPPORT: "truncated_support",
    InadmissibleReason.SAMPLING_ALTERED: "altered_draw",
}
"""Reasons that exclude a decision from scoring, in the order of the checks, with their names in
reports."""

SCORING = AdmissionRules(reasons=tuple(_UNCOVERED), temperature=1.0, empty_loss_mask_is_none=True)
"""The rules for scoring. The engine scores at temperature 1, so only log-probabilities of that
temperature are comparable."""


def key_of(trajectory: LoggedTrajectory) -> TrajectoryKey:
    """Return the key of a trajectory, which names one attempt at one task."""
    return (trajectory.tenant_id, trajectory.trajectory_id, trajectory.attempt)


def why_uncovered(generation: LoggedGeneration) -> Uncovered | None:
    """Return the reason why this decision has no valid weight; None when it has one."""
    reason = why_inadmissible(_facts(generation), SCORING)
    return None if reason is None else _UNCOVERED[reason]


def _facts(generation: LoggedGeneration) -> GenerationFacts:
    return GenerationFacts(
        prompt_token_ids=generation.prompt_token_ids,
        output_token_ids=generation.output_token_ids,
        output_logprobs=generation.output_logprobs,
        loss_mask=generation.loss_mask,
        temperature=generation.temperature,
        top_p=generation.top_p,
        top_k=generation.top_k,
        min_p=generation.min_p,
        sampling_altered_by=generation.sampling_altered_by,
        token_fidelity=generation.token_fidelity,
        broken_prefix=generation.broken_prefix,
        context_intact=generation.context_intact,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Coverage:
    """Counts of the usable trajectories and covered decisions, with the reasons for the others."""

    trajectories: int
    usable: int
    set_aside: dict[str, int]
    decisions: int
    covered: int
    uncovered: dict[str, int]

    @property
    def trajectory_share(self) -> float:
        """The share of usable trajectories in the population; 0 when it is empty."""
        return self.usable / self.population if self.population else 0.0

    @property
    def population(self) -> int:
        """Trajectories that the candidate has not learned from."""
        return self.trajectories - self.learned_from

    @property
    def learned_from(self) -> int:
        """Trajectories that the candidate was trained on, or on another attempt at their task."""
        return self.set_aside.get("trained_on", 0) + self.set_aside.get("task_trained_on", 0)

    @property
    def unscored(self) -> int:
        """Trajectories of the population with a reward and without a valid weight."""
        return sum(self.set_aside.get(reason, 0) for reason in _UNSCORED)

    @property
    def unrewarded(self) -> int:
        """Trajectories of the population without a reward."""
        return self.set_aside.get("no_reward", 0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Population:
    """The rewarded trajectories of an evaluation, each list sorted by key, and the coverage."""

    scored: Sequence[LoggedTrajectory]
    unscored: Sequence[LoggedTrajectory] = ()
    coverage: Coverage

    @property
    def rewarded(self) -> list[LoggedTrajectory]:
        """The scored trajectories, followed by the unscored ones."""
        return [*self.scored, *self.unscored]


def select(
    trajectories: Sequence[LoggedTrajectory],
    *,
    trained_on: Mapping[TrajectoryKey, str | None] | None = None,
) -> Population:
    """Return the population of an evaluation.

    Trajectories that the candidate was trained on (`trained_on`, with their tasks) are set aside,
    because the result on them would be too good. All other attempts at their tasks are set aside
    too, because the candidate was trained to do these tasks.

    Raises:
        ReplayDataError: a trajectory is in the dataset twice.
    """
    ordered = sorted(trajectories, key=key_of)
    _check_unique(ordered)
    trained_on = trained_on or {}
    tasks = {(tenant, task) for (tenant, _, _), task in trained_on.items() if task is not None}
    scored: list[LoggedTrajectory] = []
    unscored: list[LoggedTrajectory] = []
    set_aside: Counter[str] = Counter()
    uncovered: Counter[str] = Counter()
    decisions = covered = 0
    for trajectory in ordered:
        reasons = [why_uncovered(g) for g in trajectory.generations]
        decisions += len(reasons)
        covered += reasons.count(None)
        uncovered.update(reason for reason in reasons if reason is not None)
        why: SetAside | None
        if key_of(trajectory) in trained_on:
            why = "trained_on"
        elif (trajectory.tenant_id, trajectory.task_id) in tasks:
            why = "task_trained_on"
        else:
            why = _why_unusable(trajectory, reasons)
        if why is None:
            scored.append(trajectory)
            continue
        set_aside[why] += 1
        if why in _UNSCORED:
            unscored.append(trajectory)
    coverage = Coverage(
        trajectories=len(ordered),
        usable=len(scored),
        set_aside=dict(sorted(set_aside.items())),
        decisions=decisions,
        covered=covered,
        uncovered=dict(sorted(uncovered.items())),
    )
    return Population(scored=scored, unscored=unscored, coverage=coverage)


def _why_unusable(
    trajectory: LoggedTrajectory, uncovered: Sequence[Uncovered | None]
) -> SetAside | None:
    """Return the reason why a trajectory cannot be weighted; None when it can.

    `uncovered` holds, for each generation, the reason why it is not covered.
    """
    if trajectory.reward is None:
        return "no_reward"
    if not uncovered:
        return "no_generation"
    if any(reason is not None for reason in uncovered):
        return "uncovered_decision"
    return None


def _check_unique(ordered: Sequence[LoggedTrajectory]) -> None:
    for before, after in pairwise(ordered):
        if key_of(before) == key_of(after):
            raise ReplayDataError(
                f"trajectory {key_of(after)} is in the dataset twice; rebuild it before evaluating"
            )
