"""One trajectory as the agent's code sees it: numbers, steps, the context held so far.

Every method returns the id of the event that it records, never raises and may be called from any
thread. What cannot be recorded leaves a `gap` event in its place, so the hole is visible in the log
as well as in `flush()`.

Numbers (`seq`) are gapless from 0 per handle: each handle, and each forked child's copy of it, is a
producer of its own.
"""

import contextlib
import itertools
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import Token
from dataclasses import dataclass
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Protocol, Self, Unpack

from atdp.schemas import (
    Action,
    Agent,
    Annotation,
    Body,
    EndStatus,
    Error,
    Event,
    EventId,
    Feedback,
    Gap,
    Generation,
    Governance,
    InternalState,
    Message,
    Outcome,
    OutcomeResult,
    SideEffect,
    Source,
    TenantId,
    ToolCall,
    TrajectoryEnded,
    TrajectoryId,
    TrajectoryStarted,
    Versions,
    new_event_id,
    parsed_json,
)
from atdp.sdk.ambient import Ambient
from atdp.sdk.causes import cause_of
from atdp.sdk.context import HeldContext
from atdp.sdk.envelope import Extras, RewardFields, failure_of, make_reward
from atdp.sdk.json_text import content_text, json_text
from atdp.sdk.messages import MessageLike, as_message
from atdp.sdk.steps import Steps


class Journal(Protocol):
    """What a trajectory needs of its recorder."""

    tenant: TenantId
    source: Source
    producer_id: str

    def take(
        self,
        event_id: EventId,
        make: Callable[[], Event],
        *,
        substitute: Callable[[Exception], Event] | None = None,
    ) -> EventId:
        """Build, encode and spool one event; see `Recorder.take`."""

    @property
    def trajectory(self) -> Callable[..., "Trajectory"]:
        """Makes a trajectory, `parent=` its parent; see `Recorder.trajectory`."""


_handles = itertools.count()
_ambient: "Ambient[Trajectory]" = Ambient("atdp_trajectory")


def current_trajectory() -> "Trajectory | None":
    """The trajectory whose `with` block is running, None outside of any."""
    return _ambient.current


@dataclass(frozen=True, kw_only=True, slots=True)
class Identity:
    """What all events of a trajectory share."""

    trajectory_id: TrajectoryId
    attempt: int
    task_id: str | None
    session_id: str | None
    parent_trajectory_id: str | None
    spawned_by: str | None
    agent: Agent
    versions: Versions | None
    governance: Governance | None


class Trajectory:
    """Records one attempt at a task; a context manager, sync and async."""

    def __init__(self, recorder: Journal, identity: Identity, started: TrajectoryStarted) -> None:
        """Made by `Recorder.trajectory`; nothing is recorded before `start` or the first event."""
        self.identity = identity
        self._recorder = recorder
        self._start_bodies = [started]
        self._handle = next(_handles)
        self._producer = ""
        self._seq = 0
        self._steps = Steps()
        self._context = HeldContext()
        self._last_action: EventId | None = None
        self._last_model_action: EventId | None = None
        self._ended = False
        self._tokens: list[Token[Trajectory | None]] = []

    @property
    def trajectory_id(self) -> TrajectoryId:
        """Its id: keep it to send rewards later."""
        return self.identity.trajectory_id

    @property
    def step(self) -> int:
        """The current decision step, from 0."""
        return self._steps.current

    @property
    def last_action(self) -> EventId | None:
        """Event id of the newest action, None before the first."""
        return self._last_action

    def belongs_to(self, recorder: Journal) -> bool:
        """Whether `recorder` records it."""
        return self._recorder is recorder

    def start(self) -> Self:
        """Record the start, once; the first event does it by itself."""
        with contextlib.suppress(IndexError):  # a list's pop is atomic: of two threads, one starts
            body = self._start_bodies.pop()
            self._record(lambda: body, {})
        return self

    def observe(
        self,
        messages: Iterable[MessageLike],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        whole_context: bool = True,
        **extras: Unpack[Extras],
    ) -> EventId:
        """What the model was shown: messages (contract or chat dicts) and tool definitions.

        Args:
            messages: the whole context; with `whole_context=False` only what joins what is held.
            tools: definitions in force; sent once for each different set.
            whole_context: see `messages`.
            **extras: fields of the envelope.
        """
        return self._emit(
            lambda: self._context.observation(messages, tools, whole=whole_context), extras
        )

    def act_message(self, message: MessageLike | str, **extras: Unpack[Extras]) -> EventId:
        """The agent said something, and how it was generated is not known."""
        return self._emit(lambda: Action(type="message", message=_assistant(message)), extras)

    def generation(
        self,
        message: MessageLike | str,
        generation: Generation | None = None,
        **extras: Unpack[Extras],
    ) -> EventId:
        """A model call and the message that came out of it; usage, cost and latency go into `extras`."""
        return self._emit(
            lambda: Action(
                type="generation",
                message=_assistant(message),
                generation=generation or Generation(),
            ),
            extras,
        )

    def tool_call(
        self,
        name: str,
        arguments: object,
        *,
        call_id: str | None = None,
        side_effect: SideEffect = "unknown",
        **extras: Unpack[Extras],
    ) -> EventId:
        """A tool is called; `arguments` as the model wrote them (text) or as values."""

        def build() -> Action:
            text = arguments if isinstance(arguments, str) else json_text(arguments)
            call = ToolCall(
                call_id=call_id or f"call-{uuid.uuid4().hex[:12]}",
                name=name,
                arguments=text,
                arguments_json=parsed_json(text),
                side_effect=side_effect,
            )
            return Action(type="tool_call", tool_call=call)

        if "caused_by" not in extras and self._last_model_action is not None:
            extras["caused_by"] = (self._last_model_action,)
        return self._emit(build, extras)

    def outcome(
        self,
        content: object = None,
        *,
        call_id: str | None = None,
        name: str | None = None,
        result: OutcomeResult = "ok",
        error: Error | None = None,
        exit_code: int | None = None,
        **extras: Unpack[Extras],
    ) -> EventId:
        """What a tool call led to; `content` (text, or any value as JSON) joins the context as the tool's message."""

        def build() -> Outcome:
            message = None
            if content is not None:
                parts = as_message({"role": "tool", "content": content_text(content)}).parts
                message = Message(role="tool", parts=parts, call_id=call_id, name=name)
            return Outcome(
                call_id=call_id,
                name=name,
                message=message,
                result="error" if error is not None else result,
                error=error,
                exit_code=exit_code,
            )

        return self._emit(build, extras)

    def internal_state(self, body: InternalState, **extras: Unpack[Extras]) -> EventId:
        """A plan, a summary of reasoning or a confidence."""
        return self._emit(lambda: body, extras)

    def reward(self, value: float | None = None, **fields: Unpack[RewardFields]) -> EventId:
        """Reward the trajectory, or the event or step that `fields` name; as often and as late as you like."""
        return self._emit(lambda: make_reward(value, fields), {})

    def feedback(self, body: Feedback, **extras: Unpack[Extras]) -> EventId:
        """What a person said or did about it; also after the end."""
        return self._emit(lambda: body, extras)

    def annotate(self, body: Annotation, **extras: Unpack[Extras]) -> EventId:
        """A label; also after the end."""
        return self._emit(lambda: body, extras)

    def gap(self, code: str, detail: str | None = None, **extras: Unpack[Extras]) -> EventId:
        """Something happened here that is not recorded, and why."""
        return self._emit(lambda: Gap(code=code, detail=detail), extras)

    def emit(self, body: Body, **extras: Unpack[Extras]) -> EventId:
        """Record any body."""
        return self._emit(lambda: body, extras)

    def end(self, status: EndStatus = "completed", error: Error | None = None) -> EventId | None:
        """Record the end, once: None when it has ended before.

        Leaving the `with` block does it by itself.
        """
        if self._ended:
            return None
        self._ended = True
        return self._emit(
            lambda: TrajectoryEnded(status=status, error=error),
            {"status": "error" if status == "failed" else "ok"},
        )

    def spawn(self, **options: Any) -> "Trajectory":
        """A sub-agent's trajectory, spawned by this one's newest action; options as in `Recorder.trajectory`."""
        return self._recorder.trajectory(parent=self, **options)

    def __enter__(self) -> Self:
        """Start, and become the ambient trajectory."""
        self.start()
        self._tokens.append(_ambient.enter(self))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End: completed, failed when an exception leaves the block, aborted when it was stopped from outside."""
        _ambient.leave(self._tokens.pop())
        if error is None:
            self.end()
        else:
            self.end("failed" if isinstance(error, Exception) else "aborted", failure_of(error))

    async def __aenter__(self) -> Self:
        """Like `__enter__`; nothing here waits."""
        return self.__enter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Like `__exit__`."""
        self.__exit__(kind, error, traceback)

    def _emit(self, build: Callable[[], Body], extras: Extras) -> EventId:
        if self._start_bodies:
            self.start()
        return self._record(build, extras)

    def _record(self, build: Callable[[], Body], extras: Extras) -> EventId:
        event_id = new_event_id()
        now = datetime.now(UTC)
        taken: list[int] = []

        def make() -> Event:
            body = build()
            taken.append(self._next_seq())
            event = self._event(event_id, taken[0], now, body, extras)
            self._remember(event)
            return event

        def substitute(error: Exception) -> Event:
            seq = taken[0] if taken else self._next_seq()
            return self._event(
                new_event_id(), seq, now, Gap(code="not_recordable", detail=cause_of(error)), {}
            )

        return self._recorder.take(event_id, make, substitute=substitute)

    def _event(
        self, event_id: EventId, seq: int, now: datetime, body: Body, extras: Extras
    ) -> Event:
        identity = self.identity
        metadata, ext = extras.get("metadata"), extras.get("ext")
        return Event(
            event_id=event_id,
            tenant_id=self._recorder.tenant,
            trajectory_id=identity.trajectory_id,
            attempt=identity.attempt,
            producer_id=self._producer,
            seq=seq,
            step=extras["step"] if "step" in extras else self._steps.of(body),
            occurred_at=extras.get("occurred_at", now),
            ended_at=extras.get("ended_at"),
            session_id=identity.session_id,
            task_id=identity.task_id,
            caused_by=tuple(extras.get("caused_by", ())),
            parent_trajectory_id=identity.parent_trajectory_id,
            spawned_by=identity.spawned_by,
            agent=identity.agent,
            source=self._recorder.source,
            versions=extras.get("versions", identity.versions),
            usage=extras.get("usage"),
            cost=extras.get("cost"),
            latency_us=extras.get("latency_us"),
            status=extras.get("status", "ok"),
            metadata_json=None if metadata is None else json_text(metadata),
            ext_json=None if ext is None else json_text(ext),
            governance=extras.get("governance", identity.governance),
            body=body,
        )

    def _next_seq(self) -> int:
        producer = f"{self._recorder.producer_id}-{self._handle}"
        if producer != self._producer:  # first event, or first one in a forked child
            self._producer, self._seq = producer, 0
        seq, self._seq = self._seq, self._seq + 1
        return seq

    def _remember(self, event: Event) -> None:
        self._context.add(event.body)
        if isinstance(event.body, Action):
            self._last_action = event.event_id
            if event.body.type in {"message", "generation"}:
                self._last_model_action = event.event_id


def _assistant(message: MessageLike | str) -> Message:
    return as_message(
        {"role": "assistant", "content": message} if isinstance(message, str) else message
    )
