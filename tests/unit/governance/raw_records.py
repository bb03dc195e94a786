"""Signed raw records, as the governance stage reads them."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from atdp.governance.decisions import RawRecord
from atdp.runtime.keys import ApiKey
from atdp.schemas import (
    Agent,
    Body,
    Event,
    Message as ChatMessage,
    Observation,
    Part,
    SigningKey,
    Source,
    encode,
    new_event_id,
    signed_headers,
)

NOW = datetime(2026, 11, 21, tzinfo=UTC)


def plain_event(
    *,
    text: str = "hello",
    tenant: str = "acme",
    trajectory: str = "t",
    attempt: int = 0,
    session: str | None = None,
) -> Event:
    """Return an observation of one user message."""
    return Event(
        event_id=new_event_id(),
        tenant_id=tenant,  # type: ignore[arg-type]
        trajectory_id=trajectory,  # type: ignore[arg-type]
        attempt=attempt,
        session_id=session,
        producer_id="p",
        seq=0,
        occurred_at=NOW,
        agent=Agent(id="a"),
        source=Source(format="test"),
        body=Observation(messages=(ChatMessage(role="user", parts=(Part(text=text),)),)),
    )


def raw(key: ApiKey, *, body: Body | None = None, **fields: Any) -> RawRecord:
    """Return an event, by default an observation, signed with `key`; see `plain_event`."""
    event = plain_event(**fields)
    value = encode(event if body is None else replace(event, body=body))
    return RawRecord(
        key=event.key,
        value=value,
        headers=signed_headers(SigningKey.parse(key), "raw", event.key, value),
        topic="raw",
        partition=1,
        offset=7,
        timestamp=NOW,
    )
