"""Events as the ATIF documents that they came from."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from atdp.adapters.atif.pieces import (
    tool_call_of_part,
    write_content,
    write_metrics,
    write_result,
    write_tool_call,
)
from atdp.adapters.documents.remainder import restore_from
from atdp.adapters.documents.times import iso_text
from atdp.adapters.documents.typed import without_none
from atdp.schemas import (
    Action,
    Body,
    Cost,
    Event,
    Link,
    Message,
    Observation,
    Outcome,
    TrajectoryEnded,
    TrajectoryStarted,
    Usage,
    with_whole_prompts,
)

CONTINUED_BY = "continued_by"
"""Relation of a link to the document that continues a trajectory."""


class StepEvent(Protocol):
    """The fields of an event that a step is written from."""

    @property
    def body(self) -> Body: ...  # noqa: D102  # see `Event`
    @property
    def occurred_at(self) -> datetime | None: ...  # noqa: D102
    @property
    def occurred_at_nanos(self) -> int | None: ...  # noqa: D102
    @property
    def source_step_id(self) -> str | None: ...  # noqa: D102
    @property
    def usage(self) -> Usage | None: ...  # noqa: D102
    @property
    def cost(self) -> Cost | None: ...  # noqa: D102
    @property
    def links(self) -> tuple[Link, ...]: ...  # noqa: D102
    @property
    def ext_json(self) -> str | None: ...  # noqa: D102


@dataclass(frozen=True, slots=True, kw_only=True)
class RootFields:
    """The entries of a document's root that fields of events hold."""

    version: str | None
    session_id: str | None
    agent_name: str
    agent_version: str | None
    model: str | None
    tools: Any
    continued: str | None


def atif_from_events(events: Iterable[Event]) -> list[dict[str, Any]]:
    """Return the documents of events that were read from ATIF, in order.

    Events of one trajectory must follow each other in the order of `seq`. Prompts that refer to an
    earlier generation are written whole.
    """
    trajectories: dict[str, list[Event]] = {}
    for event in with_whole_prompts(events):
        trajectories.setdefault(event.trajectory_id, []).append(event)
    documents: dict[str, dict[str, Any]] = {}
    roots = []
    for trajectory_id, group in trajectories.items():
        document = documents[trajectory_id] = _document(group)
        parent = documents.get(group[0].parent_trajectory_id or "")
        if parent is None:
            roots.append(document)
        else:
            parent.setdefault("subagent_trajectories", []).append(document)
    return roots


def write_root(fields: RootFields) -> dict[str, Any]:
    """Return what the fields say of a document's root, without its steps."""
    return {
        "schema_version": f"ATIF-v{fields.version}",
        "agent": without_none(
            name=fields.agent_name,
            version=fields.agent_version,
            model_name=fields.model,
            tool_definitions=fields.tools,
        ),
        **without_none(session_id=fields.session_id, continued_trajectory_ref=fields.continued),
    }


def write_step(events: Sequence[StepEvent]) -> dict[str, Any]:
    """Return what the fields of a step's events say, without the `ext_json` of the first one."""
    first, *others = events
    message = _message(first.body)
    action = first.body if isinstance(first.body, Action) else None
    generation = action.generation if action else None
    step: dict[str, Any] = {
        "step_id": int(first.source_step_id or 0),
        "source": "agent" if message.role == "assistant" else message.role,
        "message": write_content(message),
        **without_none(
            timestamp=first.occurred_at and iso_text(first.occurred_at, first.occurred_at_nanos),
            reasoning_content=_reasoning(message),
            model_name=generation and generation.model,
            reasoning_effort=generation and generation.reasoning_effort,
            tool_calls=_tool_calls(message, others) or None,
            metrics=write_metrics(first.usage, first.cost, generation) or None,
        ),
    }
    if isinstance(first.body, Observation) and first.body.copied is not None:
        step["is_copied_context"] = first.body.copied
    results = [result for event in others if (result := _result(event)) is not None]
    return {**step, "observation": {"results": results}} if results else step


def _document(events: Sequence[Event]) -> dict[str, Any]:
    started = next(event for event in events if isinstance(event.body, TrajectoryStarted))
    ended = next(event for event in events if isinstance(event.body, TrajectoryEnded))
    root: dict[str, Any] = restore_from(write_root(_root_fields(events)), started.ext_json)
    root["steps"] = [restore_from(write_step(group), group[0].ext_json) for group in _steps(events)]
    return {**root, **json.loads(ended.ext_json or "{}")}


def _root_fields(events: Sequence[Event]) -> RootFields:
    first = events[0]
    tools = next((body.tools_json for body in _observations(events) if body.tools_json), None)
    continued = [
        json.loads(link.ext_json or "{}").get("trajectory_path")
        for event in events
        for link in event.links
        if link.relation == CONTINUED_BY
    ]
    return RootFields(
        version=first.source.version,
        session_id=first.session_id,
        agent_name=first.agent.id,
        agent_version=first.agent.version,
        model=first.versions.model if first.versions else None,
        tools=None if tools is None else json.loads(tools),
        continued=continued[0] if continued else None,
    )


def _observations(events: Iterable[Event]) -> list[Observation]:
    return [event.body for event in events if isinstance(event.body, Observation)]


def _steps(events: Iterable[Event]) -> list[list[Event]]:
    """Return the events of each step: one with a step id, then those that are part of it."""
    steps: list[list[Event]] = []
    for event in events:
        if event.source_step_id is not None:
            steps.append([event])
        elif event.parent_event_id is not None:
            steps[-1].append(event)
    return steps


def _message(body: Body) -> Message:
    match body:
        case Observation(messages=(message, *_)):
            return message
        case Action(message=Message() as message):
            return message
        case _:
            return Message(role="")


def _reasoning(message: Message) -> str | None:
    return next((part.text for part in message.parts if part.type == "reasoning"), None)


def _tool_calls(message: Message, others: Sequence[StepEvent]) -> list[Any]:
    actions = [event.body.tool_call for event in others if isinstance(event.body, Action)]
    calls = actions or [
        tool_call_of_part(part) for part in message.parts if part.type == "tool_call"
    ]
    return [restore_from(write_tool_call(call), call.ext_json) for call in calls if call]


def _result(event: StepEvent) -> Any:
    match event.body:
        case Outcome(message=Message() as message, ext_json=rest):
            return restore_from(write_result(message, event.links), rest)
        case Observation(messages=(message, *_)):
            return restore_from(write_result(message, event.links), event.ext_json)
        case _:
            return None
