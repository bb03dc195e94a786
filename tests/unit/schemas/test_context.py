"""The context is a fold: splitting it into deltas and folding them gives the whole."""

import dataclasses

from hypothesis import given, strategies as st

from atdp.schemas import (
    Action,
    Message,
    Observation,
    Outcome,
    Part,
    context_hash,
    contributed_messages,
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


def test_the_hash_sees_every_field() -> None:
    message = Message(role="user", parts=(Part(text="hi"),))
    changed = [
        dataclasses.replace(message, role="tool"),
        dataclasses.replace(message, name="n"),
        Message(role="user"),
    ]
    assert len({context_hash([each]) for each in [message, *changed]}) == 4
