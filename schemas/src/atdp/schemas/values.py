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
    "text",
    "reasoning",
    "tool_call",
    "json",
    "image",
    "audio",
    "file",
    "tool_result",
    "custom_tool_call",
    "video",
    "unknown",
]
SideEffect: TypeAlias = Literal["none", "read", "write", "unknown"]
ActionType: TypeAlias = Literal[
    "message",
    "generation",
    "tool_call",
    "memory_op",
    "code_edit",
    "handoff",
    "approval",
    "retrieval",
    "embedding",
    "guardrail",
    "plan",
    "unknown",
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
    "plan", "reasoning_summary", "confidence", "other", "memory", "compaction", "unknown"
]
LogprobEncoding: TypeAlias = Literal["ln_at_sampling_temperature", "ln_at_temperature_1", "unknown"]
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
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Cost:
    """Money spent, in an ISO 4217 currency."""

    amount: float
    currency: str = "USD"


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """One piece of a message.

    `text` of a `tool_call` holds its arguments, and of a `custom_tool_call` its input, exactly as
    written. A piece whose content is stored elsewhere has `uri`, `sha256` and `size_bytes` of it.
    """

    type: PartType = "text"
    text: str | None = None
    call_id: str | None = None
    name: str | None = None
    mime: str | None = None
    uri: str | None = None
    sha256: str | None = None
    size_bytes: int | None = None
    signature: str | None = None
    cache_control_json: str | None = None
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
    code: str | None = None
    message: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Link:
    """A relation of an event to another event, trajectory or span.

    `relation` is an open word: `copied_from`, `continues`, `retry_of`, `follows`, and others.
    """

    relation: str
    trajectory_id: str | None = None
    event_id: str | None = None
    trace_id: str | None = None
    span_id: str | None = None
    ext_json: str | None = None


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
    choices: int | None = None
    seed: int | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    stop: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class RoutedExperts:
    """The experts that a mixture-of-experts model used for each token.

    `expert_ids` lists them token by token and within a token layer by layer. `start_token` is the
    position of the first token listed, in prompt and output together.
    """

    layers: int
    experts_per_token: int
    start_token: int = 0
    expert_ids: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class BlobRef:
    """A reference to content that is stored elsewhere; `sha256` is the hash (hex) of it."""

    uri: str | None = None
    sha256: str | None = None
    size_bytes: int | None = None
    mime: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Generation:
    """A model call, with its tokens where the engine gives them.

    `output_logprobs` has one number per output token; `logprob_encoding` of `None` means natural
    logarithms at the sampling temperature. `loss_mask` likewise has one number per output token (1
    = train), `None` meaning all ones.

    With `prompt_prefix_event_id`, the prompt is the first `prompt_prefix_tokens` tokens of the
    prompt and output of that earlier generation of the trajectory, followed by `prompt_token_ids`.
    """

    model: str | None = None
    served_model: str | None = None
    provider: str | None = None
    request_id: str | None = None
    response_id: str | None = None
    choice_index: int | None = None
    prompt_token_ids: tuple[int, ...] | None = None
    prompt_prefix_event_id: str | None = None
    prompt_prefix_tokens: int | None = None
    output_token_ids: tuple[int, ...] | None = None
    output_logprobs: tuple[float, ...] | None = None
    logprob_encoding: LogprobEncoding | None = None
    policy_versions: tuple[VersionSpan, ...] = ()
    loss_mask: tuple[int, ...] | None = None
    routed_experts: RoutedExperts | None = None
    sampling: Sampling | None = None
    reasoning_effort: str | None = None
    tokenizer_hash: str | None = None
    template_hash: str | None = None
    finish_reason: str | None = None
    time_to_first_token_us: int | None = None
    request_ref: BlobRef | None = None
    response_ref: BlobRef | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolCall:
    """A tool call as sent (`arguments`) and as parsed (`arguments_json`).

    `arguments_json` is `None` when the arguments are not JSON. The call of a custom tool
    (`tool_type` custom) has its free-form input in `arguments`.
    """

    call_id: str
    name: str
    arguments: str
    arguments_json: str | None = None
    side_effect: SideEffect = "unknown"
    tool_type: str | None = None
    subagent_trajectory_id: str | None = None
    ext_json: str | None = None


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
class Document:
    """A document that a retrieval gave."""

    id: str | None = None
    uri: str | None = None
    score: float | None = None
    text: str | None = None
    ext_json: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Retrieval:
    """A search in an index of documents; `documents` is ordered, best first."""

    query: str | None = None
    index: str | None = None
    top_k: int | None = None
    documents: tuple[Document, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Embedding:
    """A computation of embedding vectors; the vectors are not recorded."""

    model: str | None = None
    input_count: int | None = None
    dimensions: int | None = None
    encoding_format: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Guardrail:
    """A check by a guardrail; `decision` is an open word: allow, block, modify, warn."""

    name: str
    decision: str | None = None
    category: str | None = None
    score: float | None = None
    reason: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """A plan that the agent made or changed."""

    text: str | None = None
    items_json: str | None = None


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
    content_hash: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class TrajectoryStarted:
    """The start of a trajectory."""

    task: str | None = None
    environment: str | None = None
    seed: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Observation:
    """The messages shown to the model, as a delta against the context held so far.

    `atdp.schemas.context` explains the delta. `copied` is true for context that was copied from
    elsewhere and not produced in this trajectory.
    """

    messages: tuple[Message, ...] = ()
    context_base: int | None = None
    context_hash: str | None = None
    tools_hash: str | None = None
    tools_json: str | None = None
    copied: bool | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class InternalState:
    """Bounded harness state: a plan, a summary of reasoning, a confidence from 0 to 1."""

    type: InternalStateType
    text: str | None = None
    confidence: float | None = None
    provenance: str | None = None
    ext_json: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Action:
    """An action of the agent; `type` names the field that is set.

    Actions of the types `generation` and `message` may both carry `message`. `error` is the failure
    of the action itself, such as a model call without an answer.
    """

    type: ActionType
    message: Message | None = None
    generation: Generation | None = None
    tool_call: ToolCall | None = None
    memory_op: MemoryOp | None = None
    code_edit: CodeEdit | None = None
    handoff: Handoff | None = None
    approval: Approval | None = None
    retrieval: Retrieval | None = None
    embedding: Embedding | None = None
    guardrail: Guardrail | None = None
    plan: Plan | None = None
    error: Error | None = None


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
    subagent_trajectory_id: str | None = None
    ext_json: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Reward:
    """A reward for an event, a step or the trajectory: a value, a critique, or both.

    `token_start` (inclusive) and `token_end` (exclusive) are a span of the target generation's
    output tokens. With `compared_to`, an event or trajectory of the target's kind, a value above 0
    means that the target is preferred to it.
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
    from 0. `occurred_at` is `None` where nobody knows the time; `seq` gives the order. A field
    `*_nanos` holds the nanoseconds, 0 to 999, beyond the microsecond of the time beside it.
    """

    event_id: EventId
    tenant_id: TenantId
    trajectory_id: TrajectoryId
    attempt: int = 0
    producer_id: str
    seq: int
    step: int = 0
    occurred_at: datetime | None = None
    occurred_at_nanos: int | None = None
    body: Body
    ended_at: datetime | None = None
    ended_at_nanos: int | None = None
    session_id: str | None = None
    task_id: str | None = None
    group_id: str | None = None
    caused_by: tuple[str, ...] = ()
    parent_event_id: str | None = None
    parent_trajectory_id: str | None = None
    spawned_by: str | None = None
    trace_id: str | None = None
    span_id: str | None = None
    parent_span_id: str | None = None
    source_step_id: str | None = None
    links: tuple[Link, ...] = ()
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
