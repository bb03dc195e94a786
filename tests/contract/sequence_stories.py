"""Sequences of events that keep every rule of sequences, or break exactly one."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from atdp.schemas import (
    EMPTY_CONTEXT_HASH,
    Action,
    Agent,
    Body,
    Event,
    EventId,
    Gap,
    Generation,
    Message,
    Observation,
    Outcome,
    Part,
    Reward,
    Source,
    TenantId,
    ToolCall,
    TrajectoryEnded,
    TrajectoryId,
    TrajectoryStarted,
    context_hash,
    deterministic_event_id,
    hash_of_tools,
)

_START = datetime(2026, 1, 1, tzinfo=UTC)
_TOOLS_JSON = '[{"function":{"name":"look"},"type":"function"}]'
_TOOLS_HASH = hash_of_tools([{"type": "function", "function": {"name": "look"}}])


@dataclass(slots=True)
class Story:
    """One sequence; the trajectories in it have short names."""

    id: str
    rule: str
    good: bool
    sentence: str
    events: list[Event] = field(default_factory=list)
    _next: dict[tuple[str, int, str], int] = field(default_factory=dict)

    def add(
        self,
        body: Body,
        *,
        seq: int | None = None,
        producer: str = "p-1",
        trajectory: str = "t",
        **fields: Any,
    ) -> Event:
        """Append an event with the producer's next number, or with the number `seq`."""
        key = (trajectory, fields.get("attempt", 0), producer)
        number = self._next.get(key, 0) if seq is None else seq
        self._next[key] = number + 1
        event = Event(
            **{
                "event_id": self.id_of(len(self.events)),
                "occurred_at": _START + timedelta(seconds=len(self.events)),
                **fields,
            },
            tenant_id=TenantId("conformance"),
            trajectory_id=TrajectoryId(trajectory),
            producer_id=producer,
            seq=number,
            agent=Agent(id="desk"),
            source=Source(format="conformance"),
            body=body,
        )
        self.events.append(event)
        return event

    def id_of(self, index: int) -> EventId:
        """Return the id of the event at `index`."""
        return deterministic_event_id(_START, "conformance", self.id, str(index))


STORIES: list[Story] = []
Write = Callable[[Story], None]


def story(rule: str, verdict: str, sentence: str) -> Callable[[Write], Write]:
    """Make a vector of the function below; its name is the vector's."""

    def write(function: Write) -> Write:
        name = function.__name__.strip("_").replace("_", "-")
        made = Story(f"sequence/{name}", f"Sequence.{rule}", verdict == "accept", sentence)
        function(made)
        STORIES.append(made)
        return function

    return write


def _said(text: str, role: Any = "user") -> Message:
    return Message(role=role, parts=(Part(text=text),))


def _act(text: str = "hi") -> Action:
    return Action(type="message", message=_said(text, "assistant"))


def _observe(*texts: str, **fields: Any) -> Observation:
    return Observation(messages=tuple(_said(text) for text in texts), **fields)


def _reward(target: str | None) -> Reward:
    return Reward(
        target_kind="trajectory" if target is None else "event",
        target_event_id=target,
        value=1.0,
        source_name="judge",
    )


def _model_call(**fields: Any) -> Action:
    return Action(type="generation", generation=Generation(**fields))


@story("seq_gapless", "accept", "A whole trajectory: every kind of reference is kept.")
def _whole(s: Story) -> None:
    s.add(TrajectoryStarted(task="find order 7"))
    first = context_hash(EMPTY_CONTEXT_HASH, s.id_of(1), 1)
    s.add(
        _observe(
            "where is order 7?",
            context_base=0,
            context_hash=first,
            tools_hash=_TOOLS_HASH,
            tools_json=_TOOLS_JSON,
        )
    )
    call = _model_call(prompt_token_ids=(1, 2, 3), output_token_ids=(4, 5))
    generation = s.add(
        Action(type="generation", generation=call.generation, message=_said("look", "assistant")),
        caused_by=(s.id_of(1),),
    )
    s.add(
        Action(type="tool_call", tool_call=ToolCall(call_id="c", name="look", arguments="{}")),
        caused_by=(generation.event_id,),
    )
    s.add(Outcome(call_id="c", name="look", message=_said("shipped", "tool")))
    second = context_hash(first, s.id_of(2), 1)
    third = context_hash(second, s.id_of(4), 1)
    fourth = context_hash(third, s.id_of(5), 1)
    s.add(_observe("well?", context_base=3, context_hash=fourth, tools_hash=_TOOLS_HASH), step=1)
    s.add(
        _model_call(
            prompt_prefix_event_id=generation.event_id,
            prompt_prefix_tokens=5,
            prompt_token_ids=(6,),
            output_token_ids=(7,),
        ),
        step=1,
    )
    s.add(_reward(generation.event_id))
    s.add(TrajectoryEnded(status="completed"), step=1)
    s.add(_reward(None), producer="p-late")


@story("seq_gapless", "accept", "Events of two trajectories and of two producers are mixed.")
def _interleaved(s: Story) -> None:
    for trajectory in ("a", "b"):
        s.add(TrajectoryStarted(), trajectory=trajectory)
    for number in range(3):
        for trajectory in ("a", "b"):
            s.add(_act(str(number)), trajectory=trajectory)
            s.add(Outcome(), trajectory=trajectory, producer="p-2")
    for trajectory in ("b", "a"):
        s.add(TrajectoryEnded(status="completed"), trajectory=trajectory)


@story("event_id", "accept", "The same event is delivered three times.")
def _copies(s: Story) -> None:
    s.add(TrajectoryStarted())
    event = s.add(_act())
    s.events += [event, event]
    s.add(TrajectoryEnded(status="completed"))


@story("event_id", "reject", "Two events with different content have one id.")
def _id_used_again(s: Story) -> None:
    s.add(TrajectoryStarted())
    first = s.add(_act("one"))
    s.add(_act("two"), event_id=first.event_id)


@story("event_id", "reject", "Events of two trajectories have one id.")
def _id_in_two_trajectories(s: Story) -> None:
    first = s.add(_act(), trajectory="a")
    s.add(_act(), trajectory="b", event_id=first.event_id)


@story("seq_once", "accept", "Each producer and each attempt has numbers of its own from 0.")
def _numbers_of_producers_and_attempts(s: Story) -> None:
    for attempt in (0, 1):
        s.add(TrajectoryStarted(), attempt=attempt)
        s.add(_act(), attempt=attempt)
        s.add(Outcome(), attempt=attempt, producer="p-2")


@story("seq_once", "reject", "A producer begins again at 0 without a new producer id.")
def _numbers_restart(s: Story) -> None:
    for text in ("one", "two"):
        s.add(_act(text))
    s.add(_act("three"), seq=0)
    s.add(_act("four"), seq=2)


@story("seq_order", "reject", "Two events of a producer are swapped.")
def _swapped(s: Story) -> None:
    for seq in (0, 2, 1, 3):
        s.add(_act(str(seq)), seq=seq)


@story("seq_gapless", "accept", "A gap event names the missing numbers.")
def _named_hole(s: Story) -> None:
    s.add(_act())
    s.add(Gap(code="queue_full", from_seq=1, to_seq=2), seq=3)
    s.add(_act())


@story("seq_gapless", "accept", "A gap event names the missing numbers later.")
def _hole_named_later(s: Story) -> None:
    s.add(_act())
    s.add(_act(), seq=3)
    s.add(Gap(code="queue_full", from_seq=1, to_seq=2))


@story("seq_gapless", "reject", "A number is missing.")
def _hole(s: Story) -> None:
    s.add(_act())
    s.add(_act(), seq=2)


@story("seq_gapless", "reject", "The numbers begin at 1.")
def _begins_at_one(s: Story) -> None:
    s.add(TrajectoryStarted(), seq=1)


@story("start", "reject", "The numbers begin at 0 with another event than the start.")
def _late_start(s: Story) -> None:
    s.add(_act())
    s.add(TrajectoryStarted())


@story("start", "reject", "An attempt starts a second time.")
def _second_start(s: Story) -> None:
    s.add(TrajectoryStarted())
    s.add(TrajectoryStarted(), producer="p-2")


@story("seq_gapless", "reject", "A gap event names only one of two missing numbers.")
def _hole_named_in_part(s: Story) -> None:
    s.add(_act())
    s.add(Gap(code="queue_full", from_seq=2, to_seq=2), seq=3)


@story("start", "accept", "A second attempt starts anew.")
def _second_attempt(s: Story) -> None:
    for attempt in (0, 1):
        s.add(TrajectoryStarted(), attempt=attempt)
        s.add(TrajectoryEnded(status="completed"), attempt=attempt)


@story("end", "accept", "A reward follows the end.")
def _reward_after_the_end(s: Story) -> None:
    s.add(TrajectoryStarted())
    s.add(TrajectoryEnded(status="completed"))
    s.add(_reward(None))


@story("end", "reject", "An action follows the end.")
def _action_after_the_end(s: Story) -> None:
    s.add(TrajectoryStarted())
    s.add(TrajectoryEnded(status="completed"))
    s.add(_act())


@story("end", "reject", "A producer ends the attempt twice.")
def _second_end(s: Story) -> None:
    s.add(TrajectoryEnded(status="completed"))
    s.add(TrajectoryEnded(status="failed"))


@story("context_base", "accept", "An observation cuts the context back to one message.")
def _cut_back(s: Story) -> None:
    s.add(_observe("one", "two", context_base=0))
    s.add(_observe("three", context_base=1))


@story("context_base", "reject", "An observation keeps three messages of a context of one.")
def _base_beyond_the_context(s: Story) -> None:
    s.add(_observe("one", context_base=0))
    s.add(_observe("two", context_base=3))


@story("context_hash", "accept", "The hash is a chain over two observations.")
def _chain(s: Story) -> None:
    first = context_hash(EMPTY_CONTEXT_HASH, s.id_of(0), 2)
    s.add(_observe("one", "two", context_base=0, context_hash=first))
    s.add(_observe("three", context_hash=context_hash(first, s.id_of(1), 1)))


@story("context_hash", "reject", "The hash leaves out the first observation.")
def _broken_chain(s: Story) -> None:
    s.add(_observe("one"))
    s.add(_observe("two", context_hash=context_hash(EMPTY_CONTEXT_HASH, s.id_of(1), 1)))


@story("context_after_gap", "accept", "After a gap, the context is sent in full.")
def _full_after_gap(s: Story) -> None:
    s.add(_observe("one", context_base=0))
    s.add(Gap(code="queue_full", from_seq=1, to_seq=1), seq=2)
    s.add(_observe("one", "two", context_base=0))


@story("context_after_gap", "accept", "After a gap, the hash proves that no message is missing.")
def _proved_after_gap(s: Story) -> None:
    first = context_hash(EMPTY_CONTEXT_HASH, s.id_of(0), 1)
    s.add(_observe("one", context_base=0, context_hash=first))
    s.add(Gap(code="queue_full", from_seq=1, to_seq=1), seq=2)
    s.add(_observe("two", context_hash=context_hash(first, s.id_of(2), 1)))


@story("context_after_gap", "reject", "After a gap, an observation continues as if nothing was.")
def _delta_after_gap(s: Story) -> None:
    s.add(_observe("one", context_base=0))
    s.add(Gap(code="queue_full", from_seq=1, to_seq=1), seq=2)
    s.add(_observe("three", context_base=2))


@story("tools", "accept", "Tools are shown once and named by their hash later.")
def _tools_shown_once(s: Story) -> None:
    s.add(_observe("one", tools_hash=_TOOLS_HASH, tools_json=_TOOLS_JSON))
    s.add(_observe("two", tools_hash=_TOOLS_HASH))


@story("tools_hash", "accept", "The hash does not depend on how the tools are written.")
def _tools_written_otherwise(s: Story) -> None:
    written = '[ {"type": "function", "function": {"name": "look"}} ]'
    s.add(_observe("one", tools_hash=_TOOLS_HASH, tools_json=written))


@story("tools_hash", "reject", "The hash is not that of the tools shown.")
def _hash_of_other_tools(s: Story) -> None:
    s.add(_observe("one", tools_hash=_TOOLS_HASH, tools_json="[]"))


@story("tools", "reject", "Tools are named that were never shown.")
def _unknown_tools(s: Story) -> None:
    s.add(_observe("one", tools_hash=_TOOLS_HASH))


@story("prompt_prefix", "accept", "A prompt begins with the tokens of the call before.")
def _prefix(s: Story) -> None:
    s.add(_model_call(prompt_token_ids=(1, 2), output_token_ids=(3,)))
    s.add(
        _model_call(
            prompt_prefix_event_id=s.id_of(0),
            prompt_prefix_tokens=3,
            prompt_token_ids=(4,),
            output_token_ids=(5,),
        )
    )
    s.add(_model_call(prompt_prefix_event_id=s.id_of(1), prompt_prefix_tokens=5))


@story("prompt_prefix", "reject", "A prompt begins with the tokens of an unknown event.")
def _unknown_prefix(s: Story) -> None:
    s.add(_model_call(prompt_prefix_event_id=s.id_of(7), prompt_prefix_tokens=1))


@story("prompt_prefix", "reject", "A prefix is longer than the prompt and output it is taken from.")
def _prefix_too_long(s: Story) -> None:
    s.add(_model_call(prompt_token_ids=(1, 2), output_token_ids=(3,)))
    s.add(_model_call(prompt_prefix_event_id=s.id_of(0), prompt_prefix_tokens=4))


@story("target", "accept", "A reward arrives before the event that it is for.")
def _reward_before_target(s: Story) -> None:
    s.add(_reward(s.id_of(1)), producer="p-2")
    s.add(_act())


@story("target", "accept", "A stream holds late rewards and nothing of their trajectory.")
def _late_rewards_only(s: Story) -> None:
    s.add(_reward(s.id_of(7)))


@story("target", "reject", "A reward is for an event that nobody recorded.")
def _unknown_target(s: Story) -> None:
    s.add(_act())
    s.add(_reward(s.id_of(7)))


@story("target", "reject", "A reward is for an event of another trajectory.")
def _target_elsewhere(s: Story) -> None:
    s.add(_act(), trajectory="a")
    s.add(_act(), trajectory="b")
    s.add(_reward(s.id_of(0)), trajectory="b")
