"""The hints of popular clients: which field names a session, which one a user."""

from typing import Any

import pytest

from atdp.gateway.recognition.conversation_hints import read_hints

UUID = "0197a3f0-7c1e-7d3a-9b52-3f1c2a4e5d60"


@pytest.mark.parametrize(
    ("headers", "body", "source"),
    [
        ({"x-session-id": UUID}, {}, "x-session-id"),
        ({"conversation_id": UUID, "session_id": UUID}, {}, "conversation_id"),
        ({"x-openwebui-chat-id": UUID}, {}, "x-openwebui-chat-id"),
        ({"x-opencode-session": UUID}, {}, "x-opencode-session"),
        ({}, {"litellm_session_id": UUID}, "litellm_session_id"),
        ({}, {"conversation": {"id": UUID}}, "conversation.id"),
        ({}, {"metadata": {"thread_id": UUID}}, "metadata.thread_id"),
        ({}, {"metadata": {"user_id": f"user_ab12_account__session_{UUID}"}}, "metadata.user_id"),
        (
            {},
            {"metadata": {"user_id": f'{{"device_id": "d", "session_id": "{UUID}"}}'}},
            "metadata.user_id",
        ),
    ],
)
def test_a_client_names_its_session(
    headers: dict[str, str], body: dict[str, Any], source: str
) -> None:
    hints = read_hints(headers, body)
    assert (hints.session, hints.session_source) == (UUID, source)


def test_a_user_is_no_session() -> None:
    hints = read_hints(
        {}, {"user": "jane", "prompt_cache_key": "app", "metadata": {"user_id": "x"}}
    )
    assert (hints.end_user, hints.cache_key, hints.session) == ("jane", "app", None)
    claude = read_hints({}, {"metadata": {"user_id": f"user_ab12_account__session_{UUID}"}})
    assert claude.end_user == "user_ab12_account_"


def test_the_marks_of_a_retry_are_read() -> None:
    assert read_hints({"x-stainless-retry-count": "1"}, {}).is_retry
    assert not read_hints({"x-stainless-retry-count": "0"}, {}).is_retry


@pytest.mark.parametrize(
    ("stated", "waits_s"), [("600", 600.0), ("2.5", 2.5), ("NaN", None), ("-1", None), ("x", None)]
)
def test_a_client_may_state_how_long_it_waits(stated: str, waits_s: float | None) -> None:
    assert read_hints({"x-stainless-read-timeout": stated}, {}).waits_s == waits_s
    assert read_hints({"x-stainless-timeout": stated}, {}).waits_s == waits_s
    assert read_hints({"idempotency-key": "k"}, {}).idempotency_key == "k"


@pytest.mark.parametrize(
    "value",
    ["", "x" * 257, "a\nb", 7, None, True, ["a"], {"id": {"id": "a"}}, "\x00", "\ud800"],
)
def test_a_value_that_names_nothing_is_left_out(value: Any) -> None:
    body = {
        "session_id": value, "conversation": value, "user": {}, "metadata": value,
        "prompt_cache_key": value, "previous_response_id": value,
    }  # fmt: skip
    hints = read_hints({"x-stainless-retry-count": "²"}, body)
    assert (hints.session, hints.cache_key, hints.end_user) == (None, None, None)
    assert not hints.is_retry


@pytest.mark.parametrize("user", ['{"device_id"', "{}", '{"session_id": 7}', "[1]", '{"a": ' * 500])
def test_a_user_id_that_only_looks_like_an_object_does_no_harm(user: str) -> None:
    assert read_hints({}, {"metadata": {"user_id": user}}).session is None
