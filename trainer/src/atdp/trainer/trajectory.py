"""Logged trajectories as the trainer reads them, and the rule by which RL may train on them.

These values are the trainer's port towards any store of trajectories. Token ids are those that the
model read and wrote, as logged; text is never tokenised again.
"""

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from atdp.lakehouse import (
    AdmissionRules,
    GenerationFacts,
    InadmissibleReason,
    why_inadmissible,
)

_REFUSALS: Mapping[InadmissibleReason, str] = {
    InadmissibleReason.NOT_ELIGIBLE: "not eligible for training",
    InadmissibleReason.CONTEXT_BROKEN: "context does not match its hash",
    InadmissibleReason.SAMPLING_UNKNOWN: "sampling parameters not recorded",
    InadmissibleReason.SAMPLING_ALTERED: "draw altered",
    InadmissibleReason.PREFIX_BROKEN: "prompt prefix broken",
    InadmissibleReason.NO_TOKEN_IDS: "token ids missing",
    InadmissibleReason.LOGPROBS_LENGTH: "log-probabilities missing",
    InadmissibleReason.IMPOSSIBLE_LOGPROBS: "log-probabilities impossible",
    InadmissibleReason.LOSS_MASK_LENGTH: "loss mask of another length",
    InadmissibleReason.WEIGHT_VERSION_UNKNOWN: "weight version unknown",
    InadmissibleReason.TEMPERATURE: "sampled greedily",
    InadmissibleReason.TRUNCATED_SUPPORT: "sampled from a truncated vocabulary",
}
"""The reasons that exclude a model call from RL, as the trainer reports them, in the order of the
checks."""

RL_TRAINING = AdmissionRules(reasons=tuple(_REFUSALS), admits_out_of_range=True)
"""The rules of admission for RL. Every temperature above 0 is admissible, since the trainer divides
the logits by it. Token fidelity is not checked here: the governed reader checks it, and
`stale_logprobs` has the rules for tokens that redaction has changed."""


REWARD_COUNTS = AdmissionRules(
    reasons=(
        InadmissibleReason.CONTEXT_BROKEN,
        InadmissibleReason.SAMPLING_UNKNOWN,
        InadmissibleReason.SAMPLING_ALTERED,
        InadmissibleReason.WEIGHT_VERSION_UNKNOWN,
        InadmissibleReason.TEMPERATURE,
        InadmissibleReason.TRUNCATED_SUPPORT,
    ),
    admits_out_of_range=True,
)
"""The rules for an attempt whose reward alone counts: the policy that is trained sampled it."""


class TrajectoryKey(NamedTuple):
    """Identity of one attempt.

    Its `repr` is part of `TrainingTrajectory.digest`, which written plans have stored.
    """

    tenant: str
    trajectory: str
    attempt: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Turn:
    """One model call."""

    prompt_ids: tuple[int, ...]
    output_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    """Behaviour log-probability of each output token, at the sampling temperature."""
    versions: tuple[str, ...]
    """Weight versions that produced the output, distinct, oldest span first; empty when unknown."""
    loss_mask: tuple[int, ...] | None = None
    """Per output token, 1 where it is trained on; None: all are."""
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = -1
    min_p: float = 0.0
    tokenizer: str | None = None
    """SHA-256 of the tokenizer that made the ids."""
    stale_from: int | None = None
    """First output token whose log-probability was logged after other tokens than these, because
    governance has replaced some before it; None: there is none."""
    reward: float | None = None
    """Reward of this turn alone; None: it has none, which is not a reward of 0."""
    refusal: str | None = None
    """The source's reason why RL must not train on this turn; None: there is none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingTrajectory:
    """One attempt at one task."""

    key: TrajectoryKey
    task: str | None
    """Trajectories of the same tenant and task form groups; without a task or group id a trajectory
    belongs to no group."""
    turns: tuple[Turn, ...]
    reward: float | None
    """None: no reward has been observed (yet), which is not a reward of 0."""
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
    group: str | None = None
    """Id of the attempts that were made to be compared with each other; it comes before `task`."""
    agent: str = ""
    prompt_and_tools: str = ""
    """Versions of prompt and tools, which name the cluster of tasks that it belongs to."""
    tool_errors: int = 0
    """Number of tool calls that failed."""
    policy: str | None = None
    """Governance policy under which it was admitted, `id@version`."""
    self_rewarded: bool = False
    """True when it has rewards that its own sender gave and that do not count."""
    tokens_refused: str | None = None
    """The reason why redaction has left no tokens that may be trained on. Its reward counts where
    attempts are compared. None: its tokens may be trained on."""
    _digest: list[str] = field(default_factory=list, init=False, repr=False, compare=False)
    """The digest once it has been computed: a plan compares it several times."""

    @property
    def comparison_id(self) -> str | None:
        """The group or the task that it is compared within; None when it names neither."""
        return self.task if self.group is None else self.group

    @property
    def digest(self) -> str:
        """SHA-256 of everything but the reward that training on it depends on."""
        if not self._digest:
            digest = hashlib.sha256(repr((self.key, self.task)).encode())
            for turn in self.turns:
                digest.update(
                    repr((turn.prompt_ids, turn.output_ids, turn.logprobs, turn.loss_mask)).encode()
                )
                if turn.stale_from is not None:
                    digest.update(b"stale from %d" % turn.stale_from)
            self._digest.append(digest.hexdigest())
        return self._digest[0]


def refusal_for_rl(trajectory: TrainingTrajectory) -> str | None:
    """Return why RL cannot use a trajectory, or its reward where `tokens_refused`; None: it can.

    Numbers that are not finite are refused here, where that costs one trajectory: in an optimizer
    step they would destroy the weights. Importance ratios need the true probability with which
    every token was sampled. So a turn is refused when its sampling was restricted by something that
    is not part of the logged probability (top-p, top-k, min-p, temperature 0).
    """
    if not trajectory.turns:
        return "no model call"
    rules = RL_TRAINING if trajectory.tokens_refused is None else REWARD_COUNTS
    rewards = (trajectory.reward, *(turn.reward for turn in trajectory.turns))
    if not all(reward is None or math.isfinite(reward) for reward in rewards):
        return "reward is not a finite number"
    for turn in trajectory.turns:
        reason = turn.refusal or generation_refusal(_facts(turn), rules)
        if reason is not None:
            return reason
    return None


def generation_refusal(facts: GenerationFacts, rules: AdmissionRules = RL_TRAINING) -> str | None:
    """Return why one model call cannot be used by RL under rules; None when it can."""
    reason = why_inadmissible(facts, rules)
    if reason is None:
        return None
    if reason is InadmissibleReason.SAMPLING_ALTERED:
        return f"draw altered by {', '.join(facts.sampling_altered_by)}"
    if reason is InadmissibleReason.PREFIX_BROKEN:
        return f"{_REFUSALS[reason]}: {facts.broken_prefix}"
    return _REFUSALS[reason]


def _facts(turn: Turn) -> GenerationFacts:
    return GenerationFacts(
        prompt_token_ids=turn.prompt_ids,
        output_token_ids=turn.output_ids,
        output_logprobs=turn.logprobs,
        loss_mask=turn.loss_mask,
        temperature=turn.temperature,
        top_p=turn.top_p,
        top_k=turn.top_k,
        min_p=turn.min_p,
        weight_versions=turn.versions,
        training_eligible=True,
    )
