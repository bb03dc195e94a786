"""A recording: one trajectory as the turns of its model, with the results of its tool calls.

A recording is made only from what is complete. A trajectory is refused, with a reason, when its
replay class says that it cannot be replayed, when a result is missing or belongs to no call, when
its messages are not what the model saw at each call, and when they hold more than text.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from atdp.lakehouse import TrajectoryRecord
from atdp.replay.cassette.tool_rules import CanonicalCall, ToolRules
from atdp.replay.coverage import TrajectoryKey
from atdp.schemas import Message, message_to_chat, tool_calls

Chat: TypeAlias = dict[str, Any]
"""A chat message in OpenAI's shape."""
REPLAYABLE = frozenset({"deterministic", "approximate"})
"""Replay classes that are replayed; an unknown class is not."""

_TEXT_PARTS = frozenset({"text", "reasoning", "tool_call", "custom_tool_call"})


class NotReplayable(Exception):
    """A trajectory cannot be replayed; `reason` is the code of the reason.

    It is the `replay_reason` of the lake, or `result_missing`, `result_without_call`,
    `context_rewritten` (the messages are not those that the model saw at each call),
    `content_not_text` or `no_model_call`.
    """

    def __init__(self, reason: str) -> None:
        """Keep the reason."""
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordedTurn:
    """One reply of the recorded model; without calls it is a reply to the user."""

    given: tuple[Chat, ...]
    """Messages between the turn before (and its results) and this one."""
    message: Message
    calls: tuple[CanonicalCall, ...]
    results: tuple[Chat, ...]
    """One for each call."""

    @property
    def identity(self) -> tuple[tuple[str, str], ...]:
        """The calls as they are compared; empty for a reply to the user."""
        return tuple(call.identity for call in self.calls)


@dataclass(frozen=True, kw_only=True, slots=True)
class Recording:
    """A replayable trajectory."""

    record: TrajectoryRecord
    agent: tuple[str, ...]
    """Agent, its prompt and tools, and weight versions: two recordings of one task by the same
    agent compare it with itself."""
    turns: tuple[RecordedTurn, ...]
    closing: tuple[Chat, ...]
    """Messages after the last turn and its results."""
    tools: tuple[Chat, ...]

    @property
    def key(self) -> TrajectoryKey:
        """Tenant, trajectory, attempt."""
        return self.record.key

    @property
    def task_id(self) -> str | None:
        """The task; None where nobody named one."""
        return self.record.task_id

    @property
    def tenant(self) -> str:
        """The tenant, whose recordings answer no other tenant's calls."""
        return self.key[0]

    @property
    def calls(self) -> tuple[CanonicalCall, ...]:
        """All calls in order."""
        return tuple(call for turn in self.turns for call in turn.calls)


@dataclass(slots=True)
class _OpenTurn:
    given: tuple[Chat, ...]
    message: Message
    results: list[Chat | None]


def recording_of(record: TrajectoryRecord, rules: ToolRules, tools: Sequence[Chat]) -> Recording:
    """Return the recording of a trajectory whose last tool definitions are `tools`.

    Raises:
        NotReplayable: it cannot be replayed.
    """
    if record.replay_class not in REPLAYABLE:
        raise NotReplayable(record.replay_reason or "unknown")
    turns, closing = _turns(record.messages)
    if not turns:
        raise NotReplayable("no_model_call")
    if record.generations and len(turns) != len(record.generations):
        raise NotReplayable("context_rewritten")
    versions = {version for call in record.generations for version in call.weight_versions}
    return Recording(
        record=record,
        agent=(
            record.agent_id or "",
            record.prompt_version or "",
            record.tools_version or "",
            *sorted(versions),
        ),
        turns=tuple(
            RecordedTurn(
                given=turn.given,
                message=turn.message,
                calls=tuple(
                    rules.canonical(record.tenant_id, call) for call in tool_calls(turn.message)
                ),
                results=_complete(turn.results),
            )
            for turn in turns
        ),
        closing=closing,
        tools=tuple(tools),
    )


def _complete(results: Sequence[Chat | None]) -> tuple[Chat, ...]:
    present = tuple(result for result in results if result is not None)
    if len(present) < len(results):
        raise NotReplayable("result_missing")
    return present


def _turns(messages: Sequence[Message]) -> tuple[list[_OpenTurn], tuple[Chat, ...]]:
    """Return the turns of the model, and the messages after the last one."""
    turns: list[_OpenTurn] = []
    given: list[Chat] = []
    asked = False
    for message in messages:
        if any(part.type not in _TEXT_PARTS for part in message.parts):
            raise NotReplayable("content_not_text")
        calls = tool_calls(message)
        if message.role == "assistant" and (asked or calls):
            turns.append(_OpenTurn(tuple(given), message, [None] * len(calls)))
            given = []
        elif message.role == "tool":
            _add_result(turns, given, message)
        else:
            # A greeting before the user has said anything is not an answer of the model.
            asked = asked or message.role == "user"
            given.append(message_to_chat(message))
    return turns, tuple(given)


def _add_result(turns: list[_OpenTurn], given: list[Chat], message: Message) -> None:
    """Put a result to its call, which is one of the turn directly before it."""
    turn = turns[-1] if turns and not given else None
    calls = () if turn is None else tool_calls(turn.message)
    for place, call in enumerate(calls):
        named = message.call_id is None or message.call_id == call.call_id
        if turn is not None and named and turn.results[place] is None:
            turn.results[place] = message_to_chat(message)
            return
    raise NotReplayable("result_without_call")
