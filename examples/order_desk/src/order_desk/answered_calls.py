"""The demo's measuring instrument: what the gateway's answers say in their headers.

The agents read no header. The HTTP client that they are given notes the headers of each answer, so
that the demo can check afterwards that every session became one trajectory and met one version.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import openai

_TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsweredCall:
    """One answered model call."""

    trajectory: str
    version: str
    track: str


_calls: ContextVar[list[AnsweredCall]] = ContextVar("answered_calls")


@contextmanager
def answered_calls() -> Iterator[list[AnsweredCall]]:
    """Give a list to which the calls of this task, and of tasks that it starts, are added."""
    calls: list[AnsweredCall] = []
    token = _calls.set(calls)
    try:
        yield calls
    finally:
        _calls.reset(token)


def observed_client(gateway: str, api_key: str) -> openai.AsyncOpenAI:
    """Return a client of the gateway whose answers are noted."""
    http = openai.DefaultAsyncHttpxClient(
        timeout=_TIMEOUT_S, trust_env=False, event_hooks={"response": [_note]}
    )
    return openai.AsyncOpenAI(
        base_url=f"{gateway}/v1", api_key=api_key, http_client=http, max_retries=0
    )


async def _note(response: Any) -> None:
    headers, calls = response.headers, _calls.get(None)
    if calls is not None and "x-atdp-weight-version" in headers:
        calls.append(
            AnsweredCall(
                trajectory=headers["x-atdp-trajectory"],
                version=headers["x-atdp-weight-version"],
                track=headers["x-atdp-track"],
            )
        )
