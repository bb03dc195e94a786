"""Records that an attacker sends to Kafka directly, and the rows that they become."""

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from confluent_kafka import KafkaError, Producer

from atdp.lakehouse import sql_literal
from atdp.runtime import KafkaSettings
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
    topic,
)

from .target import TENANT, Target

RAW = topic("events_raw").name
_LANDS_S = 120.0
_SENDS_S = 30.0


@dataclass(frozen=True, kw_only=True)
class Sent:
    """A record on its way to Kafka."""

    key: bytes
    value: bytes
    headers: Sequence[tuple[str, bytes]] = ()
    event_id: str = ""


def said(text: str) -> Body:
    """Return the message of a user."""
    return Observation(messages=(ChatMessage(role="user", parts=(Part(text=text),)),))


def event_of(tenant: str = TENANT, trajectory: str = "t", **fields: Any) -> Event:
    """Return an event with a new id."""
    given = {"body": said("hello"), "agent": Agent(id="clerk"), "seq": 0, **fields}
    return Event(
        event_id=new_event_id(),
        tenant_id=tenant,  # type: ignore[arg-type]
        trajectory_id=trajectory,  # type: ignore[arg-type]
        producer_id=new_event_id(),
        occurred_at=datetime.now(UTC),
        source=Source(format="attack"),
        **given,
    )


def signed(event: Event, key: ApiKey, *, for_topic: str = RAW) -> Sent:
    """Return the record of an event, signed with a key."""
    value = encode(event)
    headers = signed_headers(SigningKey.parse(key), for_topic, event.key, value)
    return Sent(key=event.key, value=value, headers=headers, event_id=event.event_id)


def send(
    target: Target,
    *records: Sent,
    to: str = RAW,
    principal: str | None = "agent",
    **options: Any,
) -> list[KafkaError]:
    """Send records as a principal (None: without a login); return the errors of those refused."""
    settings = KafkaSettings.from_env(target.home, principal=principal or "agent")
    config = settings.config(**{"message.timeout.ms": int(_SENDS_S * 1000), **options})
    if principal is None:
        config = {"bootstrap.servers": settings.bootstrap, "message.timeout.ms": 10_000, **options}
    errors: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: object) -> None:
        if error is not None:
            errors.append(error)

    producer = Producer({**config, "log_level": 0})
    for record in records:
        producer.produce(
            to, record.value, record.key, headers=list(record.headers), on_delivery=delivered
        )
    producer.flush(_SENDS_S + 10)
    return errors


def landed(target: Target, ids: Collection[str]) -> int:
    """Return the number of rows that events with these ids have in the lake."""
    listed = ", ".join(map(sql_literal, ids))
    rows = target.rows(f"SELECT count(*) AS n FROM events WHERE event_id IN ({listed})")
    return int(rows[0]["n"])


def rows_behind(target: Target, records: Sequence[Sent], key: ApiKey) -> int:
    """Return how often records landed, once everything that was sent before has been decided.

    An event of the same Kafka key is sent behind them, and so into the same partition.

    Raises:
        TimeoutError: that event did not land; so the records stopped the stream.
    """
    tenant, _, trajectory = records[-1].key.decode().partition("/")
    last = signed(event_of(tenant, trajectory, seq=900), key)
    send(target, last)
    wait_until(lambda: bool(landed(target, [last.event_id])))
    return landed(target, [record.event_id for record in records])


def wait_until(has_landed: Callable[[], bool]) -> None:
    """Return when a record that was sent behind others has landed.

    Raises:
        TimeoutError: it did not.
    """
    until_s = time.monotonic() + _LANDS_S
    while not has_landed():
        if time.monotonic() > until_s:
            raise TimeoutError(f"a record behind it did not land within {_LANDS_S:.0f} s")
        time.sleep(1)
