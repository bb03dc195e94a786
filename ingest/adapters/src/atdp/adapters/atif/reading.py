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
from typing import Any

from atdp.adapters.atif.step_reading import StepReading
from atdp.adapters.atif.writing import CONTINUED_BY, RootFields, write_root
from atdp.adapters.documents.json_text import UnreadableDocument, canonical_document
from atdp.adapters.documents.remainder import remainder_json
from atdp.adapters.documents.typed import as_id, as_object, as_objects, as_text
from atdp.adapters.imported_trajectory import (
    ImportedEvent,
    ImportedTrajectory,
    make_events,
)
from atdp.schemas import (
    Agent,
    Event,
    Link,
    Observation,
    Source,
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
    reading = StepReading(model=model, subagents=names)
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
