"""The context is a fold: splitting it into deltas and folding them gives the whole."""

from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

from hypothesis import given, strategies as st

from atdp.schemas import (
    EMPTY_CONTEXT_HASH,
    Action,
    Agent,
    Body,
    ContextFold,
    Event,
    EventId,
    Gap,
    Message,
    Observation,
    Outcome,
    Part,
    Source,
    TenantId,
    TrajectoryId,
    content_hash,
    context_hash,
    contributed_messages,
    event_to_record,
    extend_context,
)
from atdp.schemas.context import split_common_prefix

MESSAGES = st.lists(
    st.builds(
        Message,
        role=st.sampled_from(["system", "user", "assistant", "tool"]),
        parts=st.lists(st.builds(Part, text=st.sampled_from("abc")), max_size=2).map(tuple),
    ),
    max_size=6,
)


@given(MESSAGES, MESSAGES)
def test_folding_a_delta_gives_what_was_shown(known: list[Message], shown: list[Message]) -> None:
    base, rest = split_common_prefix(known, shown)
    assert extend_context(known, Observation(messages=rest, context_base=base)) == tuple(shown)


@given(MESSAGES, st.integers(0, 6))
def test_folding_any_split_equals_folding_the_whole(messages: list[Message], cut: int) -> None:
    halves = [
        Observation(messages=tuple(messages[:cut])),
        Observation(messages=tuple(messages[cut:])),
    ]
    context: tuple[Message, ...] = ()
    for body in halves:
        context = extend_context(context, body)
    assert context == extend_context((), Observation(messages=tuple(messages)))


def test_actions_and_outcomes_join_the_context() -> None:
    answer = Message(role="assistant", parts=(Part(text="hi"),))
    result = Message(role="tool", call_id="c", parts=(Part(text="4"),))
    context = extend_context(
        extend_context((), Action(type="generation", message=answer)),
        Outcome(call_id="c", message=result),
    )
    assert context == (answer, result)
    assert contributed_messages(Action(type="tool_call")) == ()


def test_the_hash_of_a_context_is_the_chain_that_its_documentation_gives() -> None:
    first = sha256(f"{sha256(b'').hexdigest()}\none\n0".encode()).hexdigest()
    second = sha256(f"{first}\none\n1".encode()).hexdigest()
    third = sha256(f"{second}\ntwo\n0".encode()).hexdigest()
    assert sha256(b"").hexdigest() == EMPTY_CONTEXT_HASH
    assert context_hash(context_hash(EMPTY_CONTEXT_HASH, "one", 2), "two", 1) == third
    assert context_hash(second, "two", 0) == second


def test_the_hash_of_the_content_sees_every_field_and_no_absent_one() -> None:
    message: dict[str, Any] = {"role": "user", "parts": [{"type": "text", "text": "hi"}]}
    changed: list[dict[str, Any]] = [
        {**message, "role": "tool"},
        {**message, "name": "n"},
        {**message, "parts": []},
        {**message, "parts": [{"type": "text", "text": ""}]},
    ]
    hashes = {content_hash({"observation": {"messages": [each]}}) for each in (message, *changed)}
    assert len(hashes) == 5
    absent = {**message, "call_id": None, "parts": [{**message["parts"][0], "name": None}]}
    assert content_hash({"outcome": {"message": absent}}) == content_hash(
        {"action": {"message": message}, "observation": None, "outcome": None}
    )
    assert content_hash({"reward": {"value": 1.0}}) is None
    assert content_hash({"action": {"message": None}}) is None


def test_the_hash_of_the_content_is_the_same_for_a_message_with_and_without_absent_fields() -> None:
    message = Message(role="user", parts=(Part(text="hi"),))
    event = event_of(Observation(messages=(message,)))
    assert content_hash(event_to_record(event)) == content_hash(
        {"observation": {"messages": [{"role": "user", "parts": [{"type": "text", "text": "hi"}]}]}}
    )


def event_of(body: Body, seq: int = 0, event_id: str = "one") -> Event:
    return Event(
        event_id=EventId(event_id),
        tenant_id=TenantId("acme"),
        trajectory_id=TrajectoryId("t"),
        producer_id="p",
        seq=seq,
        occurred_at=datetime(2026, 1, 1, tzinfo=UTC),
        agent=Agent(id="a"),
        source=Source(format="test"),
        body=body,
    )


def seen(base: int | None, event_id: str, kept: str = EMPTY_CONTEXT_HASH) -> Observation:
    """An observation of one message after the context with the hash `kept`."""
    return Observation(
        messages=(Message(role="user"),),
        context_base=base,
        context_hash=context_hash(kept, event_id, 1),
    )


def test_a_fold_with_a_missing_event_is_broken_until_an_observation_proves_it() -> None:
    first = event_of(seen(0, "e0"), 0, "e0")
    lost = event_of(Action(type="message", message=Message(role="assistant")), 1, "e1")
    context = ContextFold.of([first, lost])
    wrong = event_of(seen(None, "e2", context.hash), 2, "e2")
    right = event_of(seen(0, "e3"), 3, "e3")
    assert ContextFold.of([first, lost, wrong]).intact
    assert not ContextFold.of([first, wrong]).intact
    assert ContextFold.of([first, wrong, right]).intact


def test_a_hole_in_the_numbers_and_a_gap_break_the_fold_before_anything_is_proved() -> None:
    first = event_of(seen(0, "e0"), 0, "e0")
    answer = event_of(Action(type="message", message=Message(role="assistant")), 2, "e2")
    assert not ContextFold.of([first, answer]).intact
    assert not ContextFold.of([answer]).intact
    gap = event_of(Gap(code="not_taken", from_seq=7, to_seq=7), 1, "e1")
    assert not ContextFold.of([first, gap]).intact
    failed = event_of(Gap(code="engine_error"), 1, "e1")
    assert ContextFold.of([first, failed]).intact


def test_a_base_behind_the_end_breaks_the_fold_and_a_new_context_without_hash_mends_it() -> None:
    beyond = event_of(Observation(messages=(Message(role="user"),), context_base=3), 0, "e0")
    anew = event_of(Observation(messages=(Message(role="user"),), context_base=0), 1, "e1")
    assert not ContextFold.of([beyond]).intact
    assert ContextFold.of([beyond, anew]).intact


def test_an_event_that_comes_twice_breaks_the_fold() -> None:
    first = event_of(seen(0, "e0"), 0, "e0")
    again = event_of(seen(None, "e1", ContextFold.of([first]).hash), 1, "e1")
    assert ContextFold.of([first, again]).intact
    assert not ContextFold.of([first, again, again]).intact
