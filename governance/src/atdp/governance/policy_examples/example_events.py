"""The event that an example of a policy stands for."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from atdp.governance.policy.examples import ExampleInput, ExampleMessage, JsonContent
from atdp.schemas import (
    Action,
    Agent,
    Body,
    Event,
    EventId,
    Message,
    Observation,
    Outcome,
    Part,
    Source,
    TenantId,
    ToolCall,
    TrajectoryId,
    event_from_json,
)

_AT: Final = datetime(2026, 1, 1, tzinfo=UTC)
_CALL: Final = "call-1"
_TOOL: Final = "tool"
_ENVELOPE: Final[Mapping[str, Any]] = {
    "event_id": "01900000-0000-7000-8000-000000000000",
    "trajectory_id": "trajectory-1",
    "producer_id": "example",
    "seq": 0,
    "occurred_at": _AT,
    "agent": {"id": "example"},
    "source": {"format": "example"},
}
"""The fields that every event has."""


def example_event(given: ExampleInput, tenant: str) -> Event:
    """Return the event of an example, of `tenant` unless it names another.

    Raises:
        InvalidRecord: `event` of the example is none.
    """
    if given.event is not None:
        return event_from_json({**_ENVELOPE, "tenant_id": tenant, **given.event})
    return Event(
        event_id=EventId(_ENVELOPE["event_id"]),
        tenant_id=TenantId(tenant),
        trajectory_id=TrajectoryId(_ENVELOPE["trajectory_id"]),
        producer_id=_ENVELOPE["producer_id"],
        seq=0,
        occurred_at=_AT,
        agent=Agent(id=_ENVELOPE["agent"]["id"]),
        source=Source(format=_ENVELOPE["source"]["format"]),
        body=_body(given),
    )


def _body(given: ExampleInput) -> Body:
    match given:
        case ExampleInput(text=str(text)):
            return _observation([ExampleMessage(content=text)])
        case ExampleInput(messages=list(messages)):
            return _observation(messages)
        case ExampleInput(tool_arguments=arguments) if arguments is not None:
            text = _as_text(arguments)
            call = ToolCall(call_id=_CALL, name=_TOOL, arguments=text, arguments_json=_json(text))
            return Action(type="tool_call", tool_call=call)
        case ExampleInput(tool_result=result) if result is not None:
            message = Message(
                role="tool", parts=(Part(text=_as_text(result)),), call_id=_CALL, name=_TOOL
            )
            return Outcome(call_id=_CALL, name=_TOOL, message=message, result="ok")
        case _:
            raise TypeError("an example has exactly one input")


def _observation(messages: list[ExampleMessage]) -> Observation:
    return Observation(
        messages=tuple(
            Message(role=each.role, parts=(Part(text=each.content),)) for each in messages
        )
    )


def _as_text(content: JsonContent) -> str:
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)


def _json(text: str) -> str | None:
    """Return the text if it is JSON."""
    try:
        json.loads(text)
    except ValueError:
        return None
    return text
