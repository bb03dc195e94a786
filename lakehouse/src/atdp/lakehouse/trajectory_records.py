"""Trajectories as the governed reader gives them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from atdp.lakehouse.tables import TableName
from atdp.schemas import BrokenPrefix, Message, ReplayClass

Key = tuple[str, str, int]
"""Tenant, trajectory, attempt."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GenerationRecord:
    """One model call.

    Token arrays are empty when the engine gave none or governance removed them.
    """

    event_id: str
    seq: int
    step: int
    occurred_at: datetime | None
    """`None` where nobody knows the time; `seq` gives the order."""
    model: str | None
    weight_version: str | None
    policy_versions: tuple[tuple[str, int, int], ...]
    """(version, first token, end token exclusive) runs over the output tokens."""
    prompt_token_ids: tuple[int, ...]
    """The whole prompt, also where it was written as a reference."""
    broken_prefix: BrokenPrefix | None
    """The reason why a prompt's reference to an earlier generation cannot be followed."""
    output_token_ids: tuple[int, ...]
    output_logprobs: tuple[float, ...]
    """Natural logarithms of the behaviour policy, one per output token."""
    loss_mask: tuple[int, ...] | None
    """1 = trains, per output token; None: every token trains."""
    temperature: float | None
    top_p: float | None
    top_k: int | None
    min_p: float | None
    sampling_altered_by: tuple[str, ...]
    """Further request parameters that changed the sampling (see `sampling_effects`): the logged
    log-probabilities are not those of the sampling."""
    tokenizer_hash: str | None
    template_hash: str | None
    finish_reason: str | None
    token_fidelity: str | None
    """As governance stamped it; `context_changed` also where only the tokens that an earlier
    generation gave to the prompt were replaced."""
    stale_from: int | None = None
    """First output token whose log-probability was logged after other tokens than these, because
    governance replaced some before it; None: there is none."""
    context_intact: bool
    """True when the messages recorded before it are known to be those that the model was shown."""
    training_eligible: bool
    policy_id: str
    policy_version: int | None
    policy_hash: str | None
    kafka_partition: int
    kafka_offset: int

    @property
    def weight_versions(self) -> tuple[str, ...]:
        """Weight versions that produced the output, distinct, first span first; empty: unknown."""
        spans = tuple(dict.fromkeys(version for version, _, _ in self.policy_versions))
        return spans or ((self.weight_version,) if self.weight_version else ())


@dataclass(frozen=True, kw_only=True, slots=True)
class StepReward:
    """The reward that counts for a step, or for one event of it."""

    step: int
    event_id: str | None
    """`None`: the reward is for the step as a whole."""
    value: float


@dataclass(frozen=True, kw_only=True, slots=True)
class TrajectoryRecord:
    """One whole trajectory that may be used for the purpose.

    Offsets are of the governed topic; `last_offset` includes late rewards.
    """

    tenant_id: str
    trajectory_id: str
    attempt: int
    task_id: str | None
    group_id: str | None
    session_id: str | None
    status: str
    reward: float | None
    """None: no reward has come, which is not a reward of 0."""
    reward_source: str | None
    agent_id: str | None
    prompt_version: str | None
    """Version of the prompt at the first model call; `None` where nobody recorded it."""
    tools_version: str | None
    """Version of the tools at the first model call; `None` where nobody recorded it."""
    tool_errors: int
    """Number of outcomes of tools that are errors."""
    generations: tuple[GenerationRecord, ...]
    messages: tuple[Message, ...]
    """The context after the last event."""
    tools_json: str | None
    """The last tool definitions that were shown to the model."""
    step_rewards: tuple[StepReward, ...] = ()
    """The rewards of steps and of their events, where `ReadOptions` asks for them."""
    tokens_refused: str | None = None
    """The reason why its generations come without tokens (`ReadOptions.with_changed_tokens`): only
    its reward may be learned from. None: they come as they are."""
    self_rewarded: bool = False
    """True when it has rewards that do not count, because a key without the permission `reward`
    signed them and the policy does not accept them for training."""
    replay_class: ReplayClass | None = None
    """The trust in a replay of it, by its events (see the view `trajectories`). None: it
    was read for training, which does not ask."""
    replay_reason: str | None = None
    """The reason for `replay_class`."""
    first_offset: int
    last_offset: int
    kafka_partition: int

    @property
    def key(self) -> Key:
        """Tenant, trajectory, attempt."""
        return (self.tenant_id, self.trajectory_id, self.attempt)


class GovernedTrajectories(list[TrajectoryRecord]):
    """The trajectories of one reading, what was refused, and the snapshots that were read."""

    def __init__(
        self,
        records: Sequence[TrajectoryRecord],
        *,
        refused: Mapping[str, int],
        snapshots: Mapping[TableName, int],
        position: Mapping[int, int],
        refused_rewards: Mapping[str, Sequence[float]] | None = None,
    ) -> None:
        super().__init__(records)
        self.refused: dict[str, int] = dict(refused)
        """Reason → trajectories refused."""
        self.refused_rewards: dict[str, list[float]] = {
            reason: list(rewards) for reason, rewards in (refused_rewards or {}).items()
        }
        """Reason → rewards of those refused trajectories that have one."""
        self.snapshots: dict[TableName, int] = dict(snapshots)
        """The snapshots that were read; reading them again gives the same trajectories."""
        self.position: dict[int, int] = dict(position)
        """Partition → next offset: everything before it is in these snapshots. Pass it as
        `ReadOptions.after` to read only what is newer."""
