"""Quarantined records of a rig, the orders about them, and where they end."""

import sqlite3
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from atdp.governance import QuarantineOrder, open_secrets, send_orders
from atdp.governance.release.order import OrderAction
from atdp.runtime import utc_now
from atdp.runtime.kafka_settings import KafkaSettings
from atdp.runtime.keys import ApiKey
from atdp.schemas import Event, decode, decode_record

from .rig import Rig
from .worker_events import trajectories

ACTOR = "key:steward"


@dataclass(frozen=True, slots=True)
class Waiting:
    """A record of the quarantine topic and its place there."""

    partition: int
    offset: int
    record: dict[str, Any]


def waiting(rig: Rig) -> list[Waiting]:
    """Return all records of the quarantine topic, in their order."""
    return [
        Waiting(message.partition(), message.offset(), decode_record(message.value())[1])
        for message in rig.read("events_quarantine")
    ]


def quarantine_some(rig: Rig, count: int) -> list[Event]:
    """Have `count` events refused because of the role of their key; return them."""
    sent = trajectories(count, 1)
    rig.send(sent, key=rig.keys["analyst"])
    rig.worker()
    rig.wait_for_audits(count)
    stop(rig)
    assert len(waiting(rig)) == count
    return sent


def stop(rig: Rig) -> None:
    """End all workers after their transactions."""
    for worker in rig.workers:
        worker.terminate()
    for worker in rig.workers:
        worker.wait()


def mend_the_key(rig: Rig) -> None:
    """Give the key of the refused records a role that may send events."""
    with closing(sqlite3.connect(rig.home.keys_db)) as keys, keys:
        changed = keys.execute(
            "UPDATE keys SET role = 'agent' WHERE key_id = ?", (rig.keys["analyst"].key_id,)
        )
        assert changed.rowcount == 1


def order(each: Waiting, number: int = 0, action: OrderAction = "release") -> QuarantineOrder:
    """Return an order about a record; `number` tells several orders apart."""
    record = each.record
    return QuarantineOrder(
        order_id=f"order-{each.offset}-{number}",
        action=action,
        tenant_id=record["tenant_id"],
        quarantine_partition=each.partition,
        quarantine_offset=each.offset,
        source_topic=record["source_topic"],
        source_partition=record["source_partition"],
        source_offset=record["source_offset"],
        actor=ACTOR,
        reason="the key is mended",
        ordered_at=utc_now(),
    )


def give(rig: Rig, orders: Sequence[QuarantineOrder]) -> None:
    """Write orders to the topic, signed by the home of the rig."""
    with open_secrets(rig.home) as secrets:
        send_orders(orders, KafkaSettings(rig.bootstrap), secrets, topic_prefix=rig.prefix)


def landed(rig: Rig) -> Counter[str]:
    """Return how often each event is in the governed topic."""
    return Counter(str(decode(message.value()).event_id) for message in rig.read("events_governed"))


def once(events: Iterable[Event]) -> Counter[str]:
    """Return the count of events that landed once each."""
    return Counter(str(each.event_id) for each in events)


def audits_of_orders(rig: Rig) -> list[dict[str, Any]]:
    """Return the audit records about orders."""
    return [each for each in rig.records("audit") if each["order_id"] is not None]


def wait_for_orders(rig: Rig, count: int) -> list[dict[str, Any]]:
    """Wait for the audit records of `count` orders and the end of their transactions."""
    rig.wait(lambda: len(audits_of_orders(rig)) >= count, f"{count} audits of orders")
    rig.wait(rig.nothing_is_open, "a transaction stays open")
    return audits_of_orders(rig)


def analyst(rig: Rig) -> ApiKey:
    """Return the key whose role may not emit until it is mended."""
    return rig.keys["analyst"]
