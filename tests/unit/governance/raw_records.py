"""Signed raw records, as the governance stage reads them."""

from datetime import UTC, datetime

from atdp.governance.decisions import RawRecord
from atdp.runtime.keys import ApiKey
from atdp.schemas import (
    Agent,
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


def raw(
    key: ApiKey,
    *,
    text: str = "hello",
    tenant: str = "acme",
    trajectory: str = "t",
    attempt: int = 0,
    session: str | None = None,
) -> RawRecord:
    """Return an observation of one user message, signed with `key`."""
    event = Event(
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
    value = encode(event)
    return RawRecord(
        key=event.key,
        value=value,
        headers=signed_headers(SigningKey.parse(key), "raw", event.key, value),
        topic="raw",
        partition=1,
        offset=7,
        timestamp=NOW,
    )
