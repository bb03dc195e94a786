"""One trajectory as the proxy sees it: from "this request, that answer" to events.

Pure; clocks and ids come in.

What a model call becomes, in this order:

1. `observation`: the messages that are new against the context recorded so far (`context_base` says
   how many of those stay, `context_hash` proves the fold), and the tool definitions when they
   changed.
2. `outcome`: one for each new `tool` message after the last assistant message: the result of a call
   that the agent made. Tool messages further up belong to a history that was recorded, or happened,
   elsewhere: they are observations.
3. `action` of type generation: the answer, with its tokens; or `gap` when the engine gave none.
4. `action` of type tool_call: one for each call in the answer.

Each message is contributed by exactly one event, so `fold_context` over the events gives the
context at any point. A fresh instance (first call, gateway restarted, trajectory forgotten) knows
nothing: it numbers under a producer id of its own and sends the context in full with
`context_base=0`. `seq` is gapless because numbers are given when events are made, and events that
were not acknowledged are kept by the caller and sent again.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Self

from atdp.schemas import (
    Action,
    Agent,
    Body,
    Event,
    Gap,
    Generation,
    Message,
    Observation,
    Outcome,
    Source,
    TenantId,
    TrajectoryId,
    Usage,
    Versions,
    canonical_json,
    context_hash,
    new_event_id,
    tool_calls,
)

SOURCE = Source(format="proxy", version="1")


@dataclass(frozen=True, kw_only=True)
class Identity:
    """The envelope fields that all events of a trajectory attempt share."""

    tenant_id: str
    trajectory_id: str
    attempt: int
    session_id: str
    task_id: str | None
    agent: Agent
    producer_id: str


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The request of one model call."""

    messages: tuple[Message, ...]
    """The whole context as the model was shown it."""
    tools: Sequence[Any]
    at: datetime


@dataclass(frozen=True, kw_only=True)
class Answered:
    """What came back."""

    message: Message
    generation: Generation
    usage: Usage | None
    versions: Versions
    metadata_json: str | None
    ext_json: str | None
    at: datetime


@dataclass(frozen=True, kw_only=True)
class Failed:
    """No answer came back; `detail` must not quote event data."""

    code: str
    detail: str
    at: datetime


@dataclass
class LiveTrajectory:
    """The state between calls; bounded by one digest per message of the context."""

    identity: Identity
    seq: int = 0
    step: int | None = None
    """Next decision step; None before the first call, when it follows from the history shown."""
    _held: list[bytes] = field(default_factory=list)
    _tools_hash: str | None = None
    _calls: dict[str, tuple[str, int]] = field(default_factory=dict)
    _last_generation: str | None = None

    def copy(self) -> Self:
        """The same state, to make events from that may yet fail to be made."""
        return replace(self, _held=list(self._held), _calls=dict(self._calls))

    def event(
        self,
        body: Body,
        *,
        at: datetime,
        step: int | None = None,
        event_id: str | None = None,
        caused_by: Sequence[str] = (),
        **fields: Any,
    ) -> Event:
        """The next event of this producer; `fields` are further envelope fields."""
        made = Event(
            event_id=new_event_id() if event_id is None else event_id,  # type: ignore[arg-type]
            tenant_id=TenantId(self.identity.tenant_id),
            trajectory_id=TrajectoryId(self.identity.trajectory_id),
            attempt=self.identity.attempt,
            session_id=self.identity.session_id,
            task_id=self.identity.task_id,
            producer_id=self.identity.producer_id,
            agent=self.identity.agent,
            source=SOURCE,
            seq=self.seq,
            step=(self.step or 0) if step is None else step,
            occurred_at=at,
            body=body,
            caused_by=tuple(caused_by),
            **fields,
        )
        self.seq += 1
        return made

    def call(self, asked: Asked, result: Answered | Failed) -> list[Event]:
        """The events of one model call."""
        if self.step is None:
            self.step = sum(message.role == "assistant" for message in asked.messages)
        seen = self._context_events(asked)
        causes = [event.event_id for event in seen]
        duration: dict[str, Any] = {
            "ended_at": result.at,
            "latency_us": _microseconds(asked.at, result.at),
        }
        if isinstance(result, Failed):
            gap = Gap(code=result.code, detail=result.detail)
            return [
                *seen,
                self.event(gap, at=asked.at, caused_by=causes, status="error", **duration),
            ]
        generation = self.event(
            Action(type="generation", message=result.message, generation=result.generation),
            at=asked.at,
            caused_by=causes,
            status="ok",
            usage=result.usage,
            versions=result.versions,
            metadata_json=result.metadata_json,
            ext_json=result.ext_json,
            **duration,
        )
        self._last_generation = generation.event_id
        self._held.append(_digest(result.message))
        calls = []
        for call in tool_calls(result.message):
            event = self.event(
                Action(type="tool_call", tool_call=call),
                at=result.at,
                caused_by=[generation.event_id],
                status="ok",
            )
            calls.append(event)
            if call.call_id:
                self._calls[call.call_id] = (event.event_id, self.step)
        self.step += 1
        return [*seen, generation, *calls]

    def _context_events(self, asked: Asked) -> list[Event]:
        shown = asked.messages
        digests = [_digest(message) for message in shown]
        base = _common_prefix(self._held, digests)
        # A history that was cut back, and the first observation of a producer, need an explicit
        # base.
        must_observe = base < len(self._held) or not self._held
        results_from = 1 + max(
            (i for i, message in enumerate(shown) if message.role == "assistant"), default=-1
        )
        tools_hash, tools_json = self._changed_tools(asked.tools)
        events: list[Event] = []
        pending: list[Message] = []
        held = base

        def observe(until: int) -> None:
            nonlocal must_observe, tools_hash, tools_json, held
            if not (pending or must_observe or tools_json is not None):
                return
            body = Observation(
                messages=tuple(pending),
                context_base=held,
                context_hash=context_hash(shown[:until]),
                tools_hash=tools_hash,
                tools_json=tools_json,
            )
            causes = [self._last_generation] if self._last_generation else []
            events.append(self.event(body, at=asked.at, caused_by=causes))
            held = until
            pending.clear()
            must_observe, tools_json = False, None

        for index in range(base, len(shown)):
            message = shown[index]
            if message.role in _RESULT_ROLES and index >= results_from:
                observe(index)
                events.append(self._outcome(message, asked.at))
                held = index + 1
            else:
                pending.append(message)
        observe(len(shown))
        self._held = digests
        return events

    def _outcome(self, message: Message, at: datetime) -> Event:
        call_event, step = self._calls.pop(
            message.call_id or "", (None, max((self.step or 0) - 1, 0))
        )
        body = Outcome(call_id=message.call_id, name=message.name, message=message)
        return self.event(body, at=at, step=step, caused_by=[call_event] if call_event else [])

    def _changed_tools(self, tools: Sequence[Any]) -> tuple[str | None, str | None]:
        """Hash of the tool definitions, and their JSON when it was not sent before."""
        if not tools and self._tools_hash is None:
            return None, None
        text = canonical_json(list(tools))
        found = hashlib.sha256(text.encode()).hexdigest()
        changed = found != self._tools_hash
        self._tools_hash = found
        return found, text if changed else None


_RESULT_ROLES = frozenset({"tool", "function"})


def _digest(message: Message) -> bytes:
    """Identity of a message within this process: 16 bytes instead of its text."""
    return hashlib.blake2b(repr(message).encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _common_prefix(held: Sequence[bytes], shown: Sequence[bytes]) -> int:
    count = 0
    for before, now in zip(held, shown, strict=False):
        if before != now:
            break
        count += 1
    return count


def _microseconds(began: datetime, ended: datetime) -> int:
    return round((ended - began).total_seconds() * 1_000_000)
