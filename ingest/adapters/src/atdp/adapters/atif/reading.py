"""An ATIF document as trajectories: its own, and one for each sub-agent embedded in it.

A step of the system or the user becomes an observation. A step of the agent becomes an action of
type generation (or message, when `llm_call_count` says that no model was called), an action for
each tool call and an outcome for each result. The first event of a step has the step's number in
`source_step_id`; its other events are part of it (`parent_event_id`). A step that was copied from
another trajectory (`is_copied_context`) becomes observations with `copied`, so that nobody takes it
for a decision of this trajectory.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from atdp.adapters.atif.pieces import (
    read_content,
    read_cost,
    read_generation,
    read_result,
    read_tool_call,
    read_usage,
    result_links,
    tool_call_part,
)
from atdp.adapters.atif.writing import CONTINUED_BY, RootFields, write_root, write_step
from atdp.adapters.documents.json_text import UnreadableDocument, canonical_document
from atdp.adapters.documents.remainder import remainder_json
from atdp.adapters.documents.times import instant_of_iso
from atdp.adapters.documents.typed import as_id, as_object, as_objects, as_text
from atdp.adapters.imported_trajectory import (
    ImportedEvent,
    ImportedTrajectory,
    make_events,
)
from atdp.schemas import (
    Action,
    Agent,
    Event,
    Link,
    Message,
    Observation,
    Part,
    Source,
    ToolCall,
    TrajectoryEnded,
    TrajectoryStarted,
    Versions,
    canonical_json,
    hash_of_tools,
)

FORMAT = "atif"
_PREFIX = "ATIF-v"
_UNNAMED = "unknown"


def events_from_atif(document: object, tenant: str) -> list[Event]:
    """Return the events of a document for a tenant, its own before those of its sub-agents.

    Raises:
        UnreadableDocument: the value is not an ATIF document.
    """
    return [
        event
        for trajectory in trajectories_of(document, "the document")
        for event in make_events(trajectory, tenant)
    ]


def trajectories_of(document: object, origin: str) -> Iterator[ImportedTrajectory]:
    """Yield the trajectory of a document, then those of its embedded sub-agents.

    Raises:
        UnreadableDocument: the value is not an ATIF document.
    """
    digest = hashlib.sha256(canonical_document(document).encode()).hexdigest()
    yield from _trajectories(document, origin, (digest,), None)


def _trajectories(
    document: object, origin: str, identity: tuple[str, ...], parent: tuple[str, ...] | None
) -> Iterator[ImportedTrajectory]:
    root = _checked_root(document)
    subagents = _embedded(root)
    names = {
        str(each.get("trajectory_id")): (*identity, str(index))
        for index, each in enumerate(subagents)
    }
    agent = as_object(root["agent"])
    yield ImportedTrajectory(
        origin=origin,
        identity=identity,
        parent=parent,
        session_id=as_id(root.get("session_id")),
        agent=Agent(id=as_id(agent.get("name")) or _UNNAMED, version=as_text(agent.get("version"))),
        source=Source(format=FORMAT, version=root["schema_version"].removeprefix(_PREFIX)),
        started_at=None,
        events=_events(root, names),
    )
    for index, each in enumerate(subagents):
        inner = (*identity, str(index))
        yield from _trajectories(each, f"{origin} sub-agent {index}", inner, identity)


def _checked_root(document: object) -> dict[str, Any]:
    if not isinstance(document, dict):
        raise UnreadableDocument("not an object")
    version = document.get("schema_version")
    if not isinstance(version, str) or not version.startswith(_PREFIX):
        raise UnreadableDocument("no 'schema_version' that begins with ATIF-v")
    if not isinstance(document.get("agent"), dict):
        raise UnreadableDocument("'agent' must be an object")
    steps = as_objects(document.get("steps"))
    if steps is None:
        raise UnreadableDocument("'steps' must be a list of objects")
    for index, step in enumerate(steps):
        if not as_text(step.get("source")):
            raise UnreadableDocument(f"steps[{index}] has no 'source'")
    return document


def _embedded(root: Mapping[str, Any]) -> list[Any]:
    return as_objects(root.get("subagent_trajectories")) or []


def _events(root: Mapping[str, Any], names: Mapping[str, tuple[str, ...]]) -> tuple[Any, ...]:
    agent = as_object(root["agent"])
    model = as_text(agent.get("model_name"))
    reading = _AtifReading(model=model, subagents=names)
    reading.events.append(_started(root, model))
    tools = as_objects(agent.get("tool_definitions"))
    if tools is not None:
        reading.events.append(
            ImportedEvent(
                body=Observation(tools_hash=hash_of_tools(tools), tools_json=canonical_json(tools)),
                status="ok",
            )
        )
    for number, step in enumerate(root["steps"], start=1):
        reading.add_step(step, number)
    reading.events.append(_ended(root, reading.step))
    return tuple(reading.events)


def _started(root: Mapping[str, Any], model: str | None) -> ImportedEvent:
    elsewhere = {"steps", "final_metrics"}
    if _embedded(root):
        elsewhere.add("subagent_trajectories")
    rest = {key: value for key, value in root.items() if key not in elsewhere}
    return ImportedEvent(
        body=TrajectoryStarted(),
        versions=None if model is None else Versions(model=model),
        ext_json=remainder_json(write_root(_root_fields(root)), rest),
    )


def _root_fields(root: Mapping[str, Any]) -> RootFields:
    agent = as_object(root["agent"])
    return RootFields(
        version=root["schema_version"].removeprefix(_PREFIX),
        session_id=as_id(root.get("session_id")),
        agent_name=as_id(agent.get("name")) or _UNNAMED,
        agent_version=as_text(agent.get("version")),
        model=as_text(agent.get("model_name")),
        tools=as_objects(agent.get("tool_definitions")),
        continued=as_text(root.get("continued_trajectory_ref")),
    )


def _ended(root: Mapping[str, Any], step: int) -> ImportedEvent:
    continued = as_text(root.get("continued_trajectory_ref"))
    reference = Link(relation=CONTINUED_BY, ext_json=canonical_json({"trajectory_path": continued}))
    totals = {key: root[key] for key in ("final_metrics",) if key in root}
    return ImportedEvent(
        body=TrajectoryEnded(status="unknown"),
        step=max(step, 0),
        links=() if continued is None else (reference,),
        ext_json=canonical_json(totals) if totals else None,
    )


@dataclass(slots=True)
class _AtifReading:
    """The events of one trajectory read so far; `step` is the last decision of the agent."""

    model: str | None
    subagents: Mapping[str, tuple[str, ...]]
    events: list[ImportedEvent] = field(default_factory=list)
    step: int = -1

    def add_step(self, step: Mapping[str, Any], number: int) -> None:
        """Append the events of a step, the first of which carries what its fields do not say."""
        first = len(self.events)
        copied = step.get("is_copied_context") is True
        calls = [read_tool_call(call) for call in as_objects(step.get("tool_calls")) or []]
        at, nanos = instant_of_iso(step.get("timestamp"))
        agent_acts = step["source"] == "agent" and not copied
        self.step += agent_acts
        metrics = as_object(step.get("metrics")) if agent_acts else {}
        step_id = step.get("step_id")
        plain = isinstance(step_id, int) and not isinstance(step_id, bool)
        self.events.append(
            ImportedEvent(
                body=self._body(step, calls, copied=copied),
                step=self.step if agent_acts else self.step + 1,
                status="ok",
                causes=(first - 1,) if agent_acts and first > 1 else (),
                occurred_at=at,
                occurred_at_nanos=nanos,
                source_step_id=str(step_id if plain else number),
                usage=read_usage(metrics),
                cost=read_cost(metrics),
            )
        )
        if agent_acts:
            self._add_calls(calls, first)
        self._add_results(step, calls, first, copied=copied)
        self._keep_rest(first, step)

    def _body(
        self, step: Mapping[str, Any], calls: list[ToolCall], *, copied: bool
    ) -> Action | Observation:
        from_agent = step["source"] == "agent"
        parts, form = read_content(step.get("message"))
        reasoning = as_text(step.get("reasoning_content"))
        message = Message(
            role="assistant" if from_agent else step["source"],
            parts=(
                *([Part(type="reasoning", text=reasoning)] if reasoning else []),
                *parts,
                *(tool_call_part(call, with_rest=copied or not from_agent) for call in calls),
            ),
            ext_json=form,
        )
        if copied or not from_agent:
            flag = step.get("is_copied_context")
            return Observation(messages=(message,), copied=flag if isinstance(flag, bool) else None)
        if step.get("llm_call_count") == 0:
            return Action(type="message", message=message)
        return Action(
            type="generation", message=message, generation=read_generation(step, self.model)
        )

    def _add_calls(self, calls: list[ToolCall], first: int) -> None:
        began = self.events[first]
        for call in calls:
            self.events.append(
                ImportedEvent(
                    body=Action(type="tool_call", tool_call=call),
                    step=self.step,
                    causes=(first,),
                    part_of=first,
                    occurred_at=began.occurred_at,
                    occurred_at_nanos=began.occurred_at_nanos,
                )
            )

    def _add_results(
        self, step: Mapping[str, Any], calls: list[ToolCall], first: int, *, copied: bool
    ) -> None:
        names = {call.call_id: call.name for call in calls}
        positions = {
            event.body.tool_call.call_id: index
            for index, event in enumerate(self.events[first:], start=first)
            if isinstance(event.body, Action) and event.body.tool_call is not None
        }
        for entry in as_objects(as_object(step.get("observation")).get("results")) or []:
            message, outcome = read_result(entry, names)
            links = result_links(entry)
            self.events.append(
                ImportedEvent(
                    body=Observation(messages=(message,), copied=True) if copied else outcome,
                    step=max(self.step + copied, 0),
                    causes=(positions.get(outcome.call_id or "", first),),
                    part_of=first,
                    links=links,
                    subagent=None if copied else self._subagent(entry),
                    ext_json=outcome.ext_json if copied else None,
                )
            )

    def _subagent(self, entry: Mapping[str, Any]) -> tuple[str, ...] | None:
        """Return the identity of the only embedded sub-agent that a result names."""
        references = as_objects(entry.get("subagent_trajectory_ref")) or []
        if len(references) != 1:
            return None
        return self.subagents.get(str(references[0].get("trajectory_id")))

    def _keep_rest(self, first: int, step: Mapping[str, Any]) -> None:
        rest = remainder_json(write_step(self.events[first:]), dict(step))
        self.events[first] = replace(self.events[first], ext_json=rest)
