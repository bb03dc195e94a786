"""Event values: the parts of an agent's trajectory as frozen Python values.

The Avro files in `avro/` are the contract; these classes mirror the newest version field by field
(a test compares the two), and Python code passes them around. An `Event` is an envelope plus
exactly one body; its kind follows from the body's type, so the two cannot disagree. Times are aware
and UTC; on the wire they are microseconds since the epoch.

None always means "not known" or "not given". A missing reward is the absence of an event, and an
unknown token count is not zero.
"""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, NewType, TypeAlias

EventId = NewType("EventId", str)
TenantId = NewType("TenantId", str)
TrajectoryId = NewType("TrajectoryId", str)

Kind: TypeAlias = Literal[
    "trajectory_started",
    "observation",
    "internal_state",
    "action",
    "outcome",
    "reward",
    "feedback",
    "annotation",
    "gap",
    "trajectory_ended",
]
PartType: TypeAlias = Literal[
    "text", "reasoning", "tool_call", "json", "image", "audio", "file", "unknown"
]
SideEffect: TypeAlias = Literal["none", "read", "write", "unknown"]
ActionType: TypeAlias = Literal[
    "message", "generation", "tool_call", "memory_op", "code_edit", "handoff", "approval", "unknown"
]
TargetKind: TypeAlias = Literal["event", "step", "trajectory", "unknown"]
Status: TypeAlias = Literal["ok", "error", "cancelled", "unknown"]
EndStatus: TypeAlias = Literal["completed", "failed", "truncated", "aborted", "unknown"]
OutcomeResult: TypeAlias = Literal["ok", "error", "unknown"]
UserDecision: TypeAlias = Literal["accepted", "edited", "rejected", "unknown"]
ConsentState: TypeAlias = Literal["granted", "withdrawn", "unknown"]
ReplayClass: TypeAlias = Literal["deterministic", "approximate", "non_replayable", "unknown"]
TokenFidelity: TypeAlias = Literal["exact", "context_changed", "spliced", "dropped", "unknown"]
InternalStateType: TypeAlias = Literal[
    "plan", "reasoning_summary", "confidence", "other", "unknown"
]
FeedbackType: TypeAlias = Literal[
    "rating", "thumbs", "correction", "accept", "edit", "reject", "comment", "other", "unknown"
]


@dataclass(frozen=True, kw_only=True, slots=True)
class Agent:
    """The agent that acts in a trajectory."""

    id: str
    version: str | None = None
    framework: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """The format, with its version, that an event was made from."""

    format: str
    version: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Versions:
    """The versions of everything that shaped the behaviour."""

    harness: str | None = None
    prompt: str | None = None
    tools: str | None = None
    retrieval_index: str | None = None
    guardrail: str | None = None
    model: str | None = None
    weights: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Usage:
    """Token counts as the engine reports them."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_input_tokens: int | None = None
    reasoning_tokens: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Cost:
    """Money spent, in an ISO 4217 currency."""

    amount: float
    currency: str = "USD"


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """One piece of a message; `text` of a `tool_call` holds its arguments exactly as written."""

    type: PartType = "text"
    text: str | None = None
    call_id: str | None = None
    name: str | None = None
    mime: str | None = None
    sha256: str | None = None
    ext_json: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Message:
    """One message of the model's context."""

    role: str
    parts: tuple[Part, ...] = ()
    name: str | None = None
    call_id: str | None = None
    ext_json: str | None = None

    @property
    def text(self) -> str:
        """The text parts, joined; empty when there are none."""
        return "".join(part.text or "" for part in self.parts if part.type == "text")


@dataclass(frozen=True, kw_only=True, slots=True)
class Error:
    """A structured failure."""

    type: str
    message: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class VersionSpan:
    """Output tokens `start` (inclusive) to `end` (exclusive) came from weights `version`."""

    version: str
    start: int
    end: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Sampling:
    """The parameters of sampling."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    stop: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Generation:
    """A model call, with its tokens where the engine gives them.

    `output_logprobs` are natural logs at the sampling temperature, one per output token;
    `loss_mask` likewise (1 = train), None meaning all ones.
    """

    model: str | None = None
    served_model: str | None = None
    provider: str | None = None
    request_id: str | None = None
    prompt_token_ids: tuple[int, ...] | None = None
    output_token_ids: tuple[int, ...] | None = None
    output_logprobs: tuple[float, ...] | None = None
    policy_versions: tuple[VersionSpan, ...] = ()
    loss_mask: tuple[int, ...] | None = None
    sampling: Sampling | None = None
    tokenizer_hash: str | None = None
    template_hash: str | None = None
    finish_reason: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolCall:
    """A tool call as sent (`arguments`) and as parsed (`arguments_json`).

    `arguments_json` is None when the arguments are not JSON.
    """

    call_id: str
    name: str
    arguments: str
    arguments_json: str | None = None
    side_effect: SideEffect = "unknown"


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryOp:
    """A change of the agent's memory."""

    op: str
    key: str | None = None
    value: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class CodeEdit:
    """A change of a file, as a unified diff."""

    path: str
    diff: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Handoff:
    """Work passed to another agent or person."""

    to: str
    reason: str | None = None
    trajectory_id: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Approval:
    """A question to a person; `decision` is None while it is open."""

    subject: str
    decision: str | None = None
    by: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """A replacement by governance: its place, kind and count, never the value."""

    path: str
    entity: str
    operator: str
    count: int = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Governance:
    """The permitted uses of an event.

    `policy_id` is None until governance has decided. Such an event may not be used for anything.
    """

    classification: str = "unclassified"
    purposes: tuple[str, ...] = ()
    consent: ConsentState = "unknown"
    retention_class: str | None = None
    data_subjects: tuple[str, ...] = ()
    replay_class: ReplayClass = "unknown"
    policy_id: str | None = None
    policy_version: int | None = None
    policy_hash: str | None = None
    governed_at: datetime | None = None
    findings: tuple[Finding, ...] = ()
    training_eligible: bool | None = None
    eligibility_reason: str | None = None
    token_fidelity: TokenFidelity | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class TrajectoryStarted:
    """The start of a trajectory."""

    task: str | None = None
    environment: str | None = None
    seed: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Observation:
    """The messages shown to the model, as a delta against the context held so far.

    `atdp.schemas.context` explains the delta.
    """

    messages: tuple[Message, ...] = ()
    context_base: int | None = None
    context_hash: str | None = None
    tools_hash: str | None = None
    tools_json: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class InternalState:
    """Bounded harness state: a plan, a summary of reasoning, a confidence from 0 to 1."""

    type: InternalStateType
    text: str | None = None
    confidence: float | None = None
    provenance: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Action:
    """An action of the agent; `type` names the field that is set.

    Actions of the types `generation` and `message` may both carry `message`.
    """

    type: ActionType
    message: Message | None = None
    generation: Generation | None = None
    tool_call: ToolCall | None = None
    memory_op: MemoryOp | None = None
    code_edit: CodeEdit | None = None
    handoff: Handoff | None = None
    approval: Approval | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """The outcome of an action; `message` is the result as it joins the context."""

    call_id: str | None = None
    name: str | None = None
    message: Message | None = None
    result: OutcomeResult = "unknown"
    exit_code: int | None = None
    error: Error | None = None
    decision: UserDecision | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Reward:
    """A reward for an event, a step or the trajectory: a value, a critique, or both."""

    target_kind: TargetKind = "trajectory"
    target_event_id: str | None = None
    target_step: int | None = None
    value: float | None = None
    critique: str | None = None
    dimension: str = "outcome"
    source_name: str
    evaluator_version: str | None = None
    observed_at: datetime
    supersedes: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Feedback:
    """A person's reaction to an event, a step or the trajectory."""

    target_kind: TargetKind = "trajectory"
    target_event_id: str | None = None
    target_step: int | None = None
    type: FeedbackType
    value: float | None = None
    text: str | None = None
    actor: str | None = None


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


@dataclass(frozen=True, kw_only=True, slots=True)
class Gap:
    """A part of the trajectory that was not observed, with the reason; seqs are inclusive."""

    code: str
    detail: str | None = None
    from_seq: int | None = None
    to_seq: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class TrajectoryEnded:
    """The end of a trajectory; rewards and feedback may still follow."""

    status: EndStatus
    error: Error | None = None


Body: TypeAlias = (
    TrajectoryStarted
    | Observation
    | InternalState
    | Action
    | Outcome
    | Reward
    | Feedback
    | Annotation
    | Gap
    | TrajectoryEnded
)

KIND_OF_BODY: dict[type, Kind] = {
    TrajectoryStarted: "trajectory_started",
    Observation: "observation",
    InternalState: "internal_state",
    Action: "action",
    Outcome: "outcome",
    Reward: "reward",
    Feedback: "feedback",
    Annotation: "annotation",
    Gap: "gap",
    TrajectoryEnded: "trajectory_ended",
}
"""The tags of the union; each is also the name of the Avro field that holds the body."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """One fact of a trajectory: an envelope and one body.

    `seq` counts from 0 without gaps per (trajectory, attempt, producer). `step` counts decisions
    from 0.
    """

    event_id: EventId
    tenant_id: TenantId
    trajectory_id: TrajectoryId
    attempt: int = 0
    producer_id: str
    seq: int
    step: int = 0
    occurred_at: datetime
    body: Body
    ended_at: datetime | None = None
    session_id: str | None = None
    task_id: str | None = None
    caused_by: tuple[str, ...] = ()
    parent_trajectory_id: str | None = None
    spawned_by: str | None = None
    agent: Agent
    source: Source
    versions: Versions | None = None
    usage: Usage | None = None
    cost: Cost | None = None
    latency_us: int | None = None
    status: Status = "unknown"
    metadata_json: str | None = None
    ext_json: str | None = None
    governance: Governance | None = field(default=None)

    @property
    def kind(self) -> Kind:
        """The kind of the body."""
        return KIND_OF_BODY[type(self.body)]

    @property
    def key(self) -> bytes:
        """The Kafka key, which keeps the order within a tenant's trajectory."""
        return record_key(self.tenant_id, self.trajectory_id)


def record_key(tenant_id: str, trajectory_id: str) -> bytes:
    """Return the Kafka key of every record of a trajectory."""
    return f"{tenant_id}/{trajectory_id}".encode()
