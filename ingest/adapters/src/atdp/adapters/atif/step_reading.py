"""The steps of an ATIF document as events."""

from collections.abc import Mapping
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
from atdp.adapters.atif.writing import write_step
from atdp.adapters.documents.remainder import remainder_json
from atdp.adapters.documents.times import instant_of_iso
from atdp.adapters.documents.typed import as_object, as_objects, as_text
from atdp.adapters.imported_trajectory import (
    ImportedEvent,
)
from atdp.schemas import (
    Action,
    Message,
    Observation,
    Part,
    ToolCall,
)


@dataclass(slots=True)
class StepReading:
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
