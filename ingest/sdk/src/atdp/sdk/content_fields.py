"""The fields of event bodies that hold content, and the kind of each.

Names of tools, models and evaluators, ids and codes are no content: events are joined by them.
"""

from collections.abc import Mapping
from typing import Final

from atdp.schemas import (
    Action,
    Annotation,
    Approval,
    CodeEdit,
    Document,
    Error,
    Feedback,
    Gap,
    Guardrail,
    Handoff,
    InternalState,
    Link,
    MemoryOp,
    Message,
    Observation,
    Outcome,
    Part,
    Plan,
    Retrieval,
    Reward,
    ToolCall,
    TrajectoryEnded,
    TrajectoryStarted,
)
from atdp.sdk.content_kinds import ContentKind

TEXTS: Final[Mapping[type, tuple[str, ...]]] = {
    TrajectoryStarted: ("task",),
    Observation: ("tools_json",),
    Message: ("name", "ext_json"),
    Part: ("text", "uri", "ext_json"),
    InternalState: ("text", "ext_json"),
    Plan: ("text", "items_json"),
    ToolCall: ("arguments", "arguments_json", "ext_json"),
    MemoryOp: ("key", "value"),
    CodeEdit: ("path", "diff"),
    Handoff: ("reason",),
    Approval: ("subject", "by"),
    Retrieval: ("query",),
    Document: ("uri", "text", "ext_json"),
    Guardrail: ("reason",),
    Outcome: ("ext_json",),
    Error: ("message",),
    Reward: ("critique",),
    Feedback: ("text", "actor"),
    Annotation: ("value_json", "annotator"),
    Gap: ("detail",),
    Link: ("ext_json",),
}
"""The text fields with content, by record."""

RECORDS: Final[Mapping[type, tuple[str, ...]]] = {
    Observation: ("messages",),
    Message: ("parts",),
    Action: (
        *("message", "tool_call", "memory_op", "code_edit", "handoff", "approval", "retrieval"),
        *("guardrail", "plan", "error"),
    ),
    Retrieval: ("documents",),
    Outcome: ("message", "error"),
    TrajectoryEnded: ("error",),
}
"""The fields with records that hold content, by record; a field holds one, None, or a tuple."""

_KINDS: Final[Mapping[type, ContentKind]] = {
    InternalState: "reasoning",
    Plan: "reasoning",
    ToolCall: "tool_arguments",
    MemoryOp: "tool_arguments",
    CodeEdit: "tool_arguments",
    Retrieval: "tool_arguments",
    Document: "tool_results",
    Outcome: "tool_results",
    Reward: "judgements",
    Feedback: "judgements",
    Annotation: "judgements",
    Gap: "metadata",
    Link: "metadata",
}
_KINDS_OF_PARTS: Final[Mapping[str, ContentKind]] = {
    "reasoning": "reasoning",
    "tool_call": "tool_arguments",
    "custom_tool_call": "tool_arguments",
    "tool_result": "tool_results",
}
_OF_TOOLS: Final = frozenset(("tool", "function"))
"""Roles of messages that hold the result of a tool, and its name."""


def kind_of(record: object, outer: ContentKind) -> ContentKind:
    """Return the kind of a record's content, within a record of the kind `outer`."""
    match record:
        case Message(role=role):
            return "tool_results" if role in _OF_TOOLS else outer
        case Part(type=type_):
            return _KINDS_OF_PARTS.get(type_, outer)
        case _:
            return _KINDS.get(type(record), outer)


def kind_of_text(record: object, name: str, own: ContentKind) -> ContentKind | None:
    """Return the kind of a text field, in a record of the kind `own`; None: it is no content."""
    match record, name:
        case Observation(), "tools_json":
            return "tool_definitions"
        case Message(role=role), "name" if role in _OF_TOOLS:
            return None
        case _:
            return own
