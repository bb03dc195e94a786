"""The fields of a logged trajectory that replay reads, as protocols.

The lakehouse's governed reader returns values of these shapes; so may a test or an importer. A
missing value is None and never a default: a missing reward is not a reward of 0, and a missing
log-probability is not a probability of 1.
"""

from collections.abc import Sequence
from typing import Protocol

from atdp.schemas import BrokenPrefix


class LoggedGeneration(Protocol):
    """One model call, which is one decision.

    Token lists are empty or None when governance removed them.
    """

    @property
    def event_id(self) -> str: ...  # noqa: D102
    @property
    def weight_version(self) -> str | None: ...  # noqa: D102
    @property
    def prompt_token_ids(self) -> Sequence[int] | None: ...  # noqa: D102
    @property
    def output_token_ids(self) -> Sequence[int] | None: ...  # noqa: D102
    @property
    def output_logprobs(self) -> Sequence[float] | None: ...  # noqa: D102
    @property
    def loss_mask(self) -> Sequence[int] | None: ...  # noqa: D102
    @property
    def temperature(self) -> float | None: ...  # noqa: D102
    @property
    def top_p(self) -> float | None: ...  # noqa: D102
    @property
    def top_k(self) -> int | None: ...  # noqa: D102
    @property
    def min_p(self) -> float | None: ...  # noqa: D102
    @property
    def sampling_altered_by(self) -> Sequence[str]: ...  # noqa: D102
    @property
    def token_fidelity(self) -> str | None: ...  # noqa: D102
    @property
    def broken_prefix(self) -> BrokenPrefix | None: ...  # noqa: D102
    @property
    def context_intact(self) -> bool: ...  # noqa: D102


class LoggedTrajectory(Protocol):
    """One attempt at one task: its generations in order and its latest trajectory-level reward."""

    @property
    def tenant_id(self) -> str: ...  # noqa: D102
    @property
    def trajectory_id(self) -> str: ...  # noqa: D102
    @property
    def attempt(self) -> int: ...  # noqa: D102
    @property
    def task_id(self) -> str | None: ...  # noqa: D102
    @property
    def reward(self) -> float | None: ...  # noqa: D102
    @property
    def generations(self) -> Sequence[LoggedGeneration]: ...  # noqa: D102


def task_of(trajectory: LoggedTrajectory) -> str:
    """Return the cluster of a trajectory: its tenant's task, or itself when the task is unknown."""
    task = (
        f"task {trajectory.task_id}"
        if trajectory.task_id is not None
        else f"only {trajectory.trajectory_id}"
    )
    return f"{trajectory.tenant_id}/{task}"
