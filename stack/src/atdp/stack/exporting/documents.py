"""Governed trajectories in the forms that other programs read: chat messages and ATIF."""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from atdp.lakehouse import TrajectoryRecord
from atdp.schemas import message_to_chat

_ATIF_SOURCES: Final[Mapping[str, str]] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "agent",
}


def chat_document(record: TrajectoryRecord) -> dict[str, Any]:
    """Return a trajectory as a conversation in OpenAI's shape, with its tools and its reward."""
    return {
        **_identity(record),
        "messages": [message_to_chat(message) for message in record.messages],
        "tools": json.loads(record.tools_json) if record.tools_json else [],
    }


def atif_document(record: TrajectoryRecord) -> dict[str, Any]:
    """Return a trajectory as an ATIF document.

    A result of a tool is an observation of the agent's step before it; one without such a step is a
    step of its own.
    """
    steps: list[dict[str, Any]] = []
    for message in map(message_to_chat, record.messages):
        agent = steps[-1] if steps and steps[-1]["source"] == "agent" else None
        if message["role"] == "tool" and agent is not None:
            result = {"source_call_id": message.get("tool_call_id"), "content": message["content"]}
            agent.setdefault("observation", {"results": []})["results"].append(result)
            continue
        step: dict[str, Any] = {
            "step_id": len(steps) + 1,
            "source": _ATIF_SOURCES.get(message["role"], "system"),
            "message": message["content"] or "",
        }
        if calls := message.get("tool_calls"):
            step["tool_calls"] = [_atif_call(call) for call in calls]
        steps.append(step)
    return {
        "schema_version": "ATIF-v1.4",
        "session_id": record.session_id or record.trajectory_id,
        "agent": {"name": record.agent_id or "unknown", "version": record.prompt_version or ""},
        "steps": steps,
        "extra": _identity(record),
    }


def _atif_call(call: Mapping[str, Any]) -> dict[str, Any]:
    function = call.get("function") or call.get("custom") or {}
    text = function.get("arguments", function.get("input", ""))
    try:
        arguments = json.loads(text)
    except ValueError:
        arguments = None
    return {
        "tool_call_id": call["id"],
        "function_name": function.get("name", ""),
        "arguments": arguments if isinstance(arguments, dict) else {"text": text},
    }


def _identity(record: TrajectoryRecord) -> dict[str, Any]:
    return {
        "tenant_id": record.tenant_id,
        "trajectory_id": record.trajectory_id,
        "attempt": record.attempt,
        "task_id": record.task_id,
        "status": record.status,
        "reward": record.reward,
    }


DOCUMENTS: Final[Mapping[str, Callable[[TrajectoryRecord], dict[str, Any]]]] = {
    "chat-jsonl": chat_document,
    "atif": atif_document,
}
"""Formats by name."""
