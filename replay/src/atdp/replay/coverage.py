"""Which logged decisions have a valid importance weight, and why the others have none.

A weight needs the sampler's own log-probability of every token, over the distribution that the
engine will be asked for again: temperature 1 and full support. Truncated sampling (top-p, top-k,
min-p) has zero probability where the candidate may have some, and a penalty, a bias or a grammar
changes the draw behind the logged numbers, so such a decision cannot be weighted; it is
*uncovered*, never imputed. So is one whose sampling was not recorded. One uncovered decision leaves
the whole trajectory without a weight. Without a reward a trajectory has nothing to weigh.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from atdp.replay.errors import DatasetError
from atdp.replay.records import Generation, Trajectory

Uncovered = Literal[
    "no_token_ids", "no_logprobs", "length_mismatch", "no_trainable_token", "temperature", "truncated_support",
    "altered_draw", "sampling_unknown",
]  # fmt: skip
SetAside = Literal[
    "uncovered_decision", "no_reward", "no_generation", "trained_on", "task_trained_on"
]
TrajectoryKey = tuple[str, str, int]
"""Tenant, trajectory, attempt."""

TRUSTED_FIDELITY = frozenset({"exact"})
"""After redaction only these token ids are still what the sampler saw and chose."""


def key_of(trajectory: Trajectory) -> TrajectoryKey:
    """What names one attempt at one task."""
    return (trajectory.tenant_id, trajectory.trajectory_id, trajectory.attempt)


def why_uncovered(generation: Generation) -> Uncovered | None:
    """The reason why this decision has no valid weight, or None when it has one."""
    if (
        not generation.prompt_token_ids
        or not generation.output_token_ids
        or generation.token_fidelity not in TRUSTED_FIDELITY
    ):
        return "no_token_ids"
    logprobs, mask, n = (
        generation.output_logprobs,
        generation.loss_mask,
        len(generation.output_token_ids),
    )
    if not logprobs:
        return "no_logprobs"
    if len(logprobs) != n or (mask and len(mask) != n):
        return "length_mismatch"
    if not all(math.isfinite(p) and p <= 1e-6 for p in logprobs):
        return "no_logprobs"
    if mask and not any(mask):
        return "no_trainable_token"
    if generation.temperature is None or generation.top_p is None or generation.top_k is None:
        return "sampling_unknown"
    if generation.temperature != 1.0:
        return "temperature"
    if generation.top_p != 1.0 or generation.top_k > 0 or generation.min_p:
        return "truncated_support"
    return "altered_draw" if generation.draw_altered_by else None


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """What of the dataset can be evaluated. Counts, with the reasons for the rest."""

    trajectories: int
    usable: int
    set_aside: dict[str, int]
    decisions: int
    covered: int
    uncovered: dict[str, int]

    @property
    def trajectory_share(self) -> float:
        """Usable trajectories over all that the candidate has not learned from; 0 when there is none."""
        asked = self.trajectories - self.learned_from
        return self.usable / asked if asked else 0.0

    @property
    def learned_from(self) -> int:
        """Trajectories that the candidate was trained on, or on another attempt at their task."""
        return self.set_aside.get("trained_on", 0) + self.set_aside.get("task_trained_on", 0)

    @property
    def decision_share(self) -> float:
        """Covered decisions over all."""
        return self.covered / self.decisions if self.decisions else 0.0


def select(
    trajectories: Sequence[Trajectory],
    *,
    trained_on: Mapping[TrajectoryKey, str | None] | None = None,
) -> tuple[list[Trajectory], Coverage]:
    """Split a dataset into usable trajectories (sorted by key) and counted reasons.

    Trajectories that the candidate was trained on (`trained_on`: with their tasks) are set aside,
    for they would flatter it; so are all other attempts at a task of theirs, since what was learned
    there is how to do that task.
    """
    trained_on = trained_on or {}
    tasks = {(tenant, task) for (tenant, _, _), task in trained_on.items() if task is not None}
    usable: list[Trajectory] = []
    set_aside: Counter[str] = Counter()
    uncovered: Counter[str] = Counter()
    decisions = covered = 0
    ordered = sorted(trajectories, key=key_of)
    for before, after in pairwise(ordered):
        if key_of(before) == key_of(after):
            raise DatasetError(
                f"trajectory {key_of(after)} is in the dataset twice; rebuild it before evaluating"
            )
    for trajectory in ordered:
        reasons = [why_uncovered(g) for g in trajectory.generations]
        decisions += len(reasons)
        covered += reasons.count(None)
        uncovered.update(r for r in reasons if r is not None)
        fate: SetAside | None = None
        if key_of(trajectory) in trained_on:
            fate = "trained_on"
        elif (trajectory.tenant_id, trajectory.task_id) in tasks:
            fate = "task_trained_on"
        elif not reasons:
            fate = "no_generation"
        elif trajectory.reward is None:
            fate = "no_reward"
        elif any(r is not None for r in reasons):
            fate = "uncovered_decision"
        if fate is None:
            usable.append(trajectory)
        else:
            set_aside[fate] += 1
    return usable, Coverage(
        trajectories=len(ordered),
        usable=len(usable),
        set_aside=dict(sorted(set_aside.items())),
        decisions=decisions,
        covered=covered,
        uncovered=dict(sorted(uncovered.items())),
    )
