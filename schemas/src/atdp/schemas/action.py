"""Actions of the agent: a record for each type of action, and the action that holds one."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from atdp.schemas.generation import Generation
from atdp.schemas.message import Message
from atdp.schemas.outcome import Error

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
