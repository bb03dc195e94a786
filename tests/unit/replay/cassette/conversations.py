"""Recorded conversations of a shop's agent, as trajectories of the lake."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from atdp.lakehouse import TrajectoryRecord
from atdp.replay.cassette.cassette import Cassette, make_cassette
from atdp.replay.cassette.recording import Recording, recording_of
from atdp.replay.cassette.tool_rules import ToolRule, ToolRules
from atdp.schemas import ReplayClass, ToolCall, messages_from_chat

Chat = dict[str, Any]
READ = ToolRule(effect="read")
RULES = ToolRules(rules={"find": READ, "price": READ})
"""`find` and `price` change nothing; every other tool writes."""


def user(text: str) -> Chat:
    return {"role": "user", "content": text}


def reply(text: str) -> Chat:
    return {"role": "assistant", "content": text}


def calling(*calls: tuple[str, Mapping[str, Any]], first: int = 0) -> Chat:
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {
                "id": f"c{number}",
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(arguments)},
            }
            for number, (name, arguments) in enumerate(calls, first)
        ],
    }


def result(text: str, number: int = 0) -> Chat:
    return {"role": "tool", "tool_call_id": f"c{number}", "content": text}


def call(name: str, /, **arguments: Any) -> ToolCall:
    return ToolCall(call_id="x", name=name, arguments=json.dumps(arguments))


ORDER: tuple[Chat, ...] = (
    {"role": "system", "content": "You sell ropes."},
    user("two ropes please"),
    calling(("find", {"item": "rope"}), ("price", {"item": "rope"})),
    result("in stock"),
    result("7", 1),
    reply("That is 14. Shall I order?"),
    user("yes"),
    calling(("order", {"item": "rope", "count": 2})),
    result("ordered"),
    calling(("find", {"item": "rope"})),
    result("sold out"),
    reply("Done."),
    user("thanks"),
)
"""Two reads, a question, a write, and the first read again, which now has another result."""


def record(
    messages: Sequence[Chat] = ORDER,
    *,
    name: str = "t-0",
    tenant: str = "acme",
    task: str | None = "task-0",
    reward: float | None = 1.0,
    replay_class: ReplayClass = "deterministic",
) -> TrajectoryRecord:
    return TrajectoryRecord(
        tenant_id=tenant,
        trajectory_id=name,
        attempt=0,
        task_id=task,
        group_id=None,
        session_id=None,
        status="completed",
        reward=reward,
        reward_source=None,
        agent_id="shop",
        prompt_version=None,
        tools_version=None,
        tool_errors=0,
        generations=(),
        messages=messages_from_chat(list(messages)),
        tools_json=None,
        replay_class=replay_class,
        replay_reason="greedy" if replay_class == "deterministic" else "governance_changed",
        first_offset=0,
        last_offset=9,
        kafka_partition=0,
    )


def recording(messages: Sequence[Chat] = ORDER, **fields: Any) -> Recording:
    return recording_of(record(messages, **fields), RULES, ())


def cassette(messages: Sequence[Chat] = ORDER, **fields: Any) -> Cassette:
    return make_cassette(recording(messages, **fields))
