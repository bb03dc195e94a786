"""The SDK and the gateway's proxy read a chat message to the same value.

Therefore a context hash and a tools hash mean the same from both.
"""

from typing import Any

from hypothesis import given, strategies as st

from atdp.schemas import MalformedMessage, message_from_chat
from atdp.sdk import as_message

texts = st.text(max_size=12)
scalars = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | texts
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=5,
)
extras = st.dictionaries(
    st.sampled_from(["refusal", "annotations", "vendor"]), scalars | st.lists(scalars, max_size=2)
)
parts = st.one_of(
    st.fixed_dictionaries({"type": st.just("text"), "text": texts}),
    st.fixed_dictionaries(
        {"type": st.just("image_url"), "image_url": st.fixed_dictionaries({"url": texts})}
    ),
    st.fixed_dictionaries({"type": st.just("hologram"), "data": texts}),
)
calls = st.fixed_dictionaries(
    {
        "id": texts,
        "type": st.just("function"),
        "function": st.fixed_dictionaries({"name": texts, "arguments": texts | values}),
    },
    optional={"index": st.integers(0, 5), "vendor": texts},
)
chats = st.builds(
    lambda known, more: {**more, **known},
    st.fixed_dictionaries(
        {"role": st.sampled_from(["system", "user", "assistant", "tool"])},
        optional={
            "content": st.none() | texts | st.lists(parts, max_size=3),
            "reasoning_content": st.none() | texts,
            "tool_calls": st.none() | st.lists(calls, max_size=2),
            "tool_call_id": st.none() | texts,
            "name": st.none() | texts,
        },
    ),
    extras,
)


@given(chats)
def test_both_read_the_same(chat: dict[str, Any]) -> None:
    assert as_message(chat) == message_from_chat(chat)


@given(
    st.fixed_dictionaries(
        {"role": texts | values},
        optional={
            key: values
            for key in ("content", "reasoning_content", "tool_calls", "tool_call_id", "name", "x")
        },
    )
)
def test_where_the_gateway_takes_a_message_the_sdk_takes_the_same(chat: dict[str, Any]) -> None:
    try:
        strict = message_from_chat(chat)
    except MalformedMessage:
        return
    assert as_message(chat) == strict
