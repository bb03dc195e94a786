"""What the trainer needs to know of a logged trajectory.

These are the trainer's own values: its port towards any store of trajectories. Tokens are what the
model saw and wrote, as logged; nothing here is ever tokenised again.
"""

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

ROUNDING = 1e-6
"""A log-probability may exceed 0 by so much, in nats: float32 arithmetic of an engine. What exceeds
it is no log-probability."""


class TrajectoryKey(NamedTuple):
    """Identity of one attempt."""

    tenant: str
    trajectory: str
    attempt: int


@dataclass(frozen=True, kw_only=True)
class Turn:
    """One model call."""

    prompt_ids: tuple[int, ...]
    output_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    """Behaviour log-probability of each output token, at the sampling temperature."""
    versions: tuple[str, ...]
    """Weight versions that produced the output, distinct, oldest span first; empty when unknown."""
    loss_mask: tuple[int, ...] | None = None
    """1 = train, per output token; `None`: all of them."""
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = -1
    min_p: float = 0.0
    tokenizer: str | None = None
    """SHA-256 of the tokenizer that made the ids."""
    refusal: str | None = None
    """Why governance or the log forbids training on this turn by RL; `None`: it does not."""


@dataclass(frozen=True, kw_only=True)
class Trajectory:
    """One attempt at one task."""

    key: TrajectoryKey
    task: str | None
    """Trajectories of the same tenant and task form groups; `None` belongs to no group."""
    turns: tuple[Turn, ...]
    reward: float | None
    """`None`: no reward has been observed (yet), which is not a reward of 0."""
    status: str
    started_us: int
    """Start in microseconds since the epoch: the order in which groups form."""
    partition: int
    """Kafka partition of the governed topic that carries it."""
    first_offset: int
    """Offset of its first event in that partition; fixed for ever, unlike the last one."""
    messages: tuple[Mapping[str, Any], ...] = ()
    """The conversation in OpenAI's shape, for supervised training."""
    tools: tuple[Mapping[str, Any], ...] = ()
    """Tool definitions that were offered."""
    policy: str | None = None
    """Governance policy under which it was admitted, `id@version`."""
    _digest: list[str] = field(default_factory=list, repr=False, compare=False)

    @property
    def digest(self) -> str:
        """SHA-256 of the tokens and log-probabilities: what training on it depends on, the reward aside."""
        if not self._digest:
            digest = hashlib.sha256(repr((self.key, self.task)).encode())
            for turn in self.turns:
                digest.update(
                    repr((turn.prompt_ids, turn.output_ids, turn.logprobs, turn.loss_mask)).encode()
                )
            self._digest.append(digest.hexdigest())
        return self._digest[0]


def refusal_for_rl(trajectory: Trajectory) -> str | None:
    """Why a trajectory cannot be trained on by RL, in words that name what is missing; `None` when it can.

    A number that is no number is refused here, where it costs one trajectory: in a step it would
    cost the weights. Ratios need the true probability with which every token was drawn, so whatever
    restricted the draw without being part of the logged probability (top-p, top-k, min-p,
    temperature 0) excludes the row.
    """
    if trajectory.task is None:
        return "no task id, so no group"
    if not trajectory.turns:
        return "no model call"
    if trajectory.reward is not None and not math.isfinite(trajectory.reward):
        return "reward is not a finite number"
    for turn in trajectory.turns:
        reason = turn.refusal or _turn_refusal(turn)
        if reason is not None:
            return reason
    return None


def _turn_refusal(turn: Turn) -> str | None:
    if not turn.prompt_ids or not turn.output_ids:
        return "token ids missing"
    if len(turn.logprobs) != len(turn.output_ids):
        return "log-probabilities missing"
    if not all(math.isfinite(p) and p <= ROUNDING for p in turn.logprobs):
        return "log-probabilities impossible"
    if turn.loss_mask is not None and len(turn.loss_mask) != len(turn.output_ids):
        return "loss mask of another length"
    if not turn.versions:
        return "weight version unknown"
    if turn.temperature <= 0:
        return "sampled greedily"
    if turn.top_p < 1 or turn.top_k > 0 or turn.min_p > 0:
        return "sampled from a truncated vocabulary"
    return None
