"""Carries out orders about quarantined records, within the transactions of the governance stage.

A released record goes through governance again as if it was read from its place in the raw topic:
its sender is authenticated, and it is governed under the policies, the consent and the learned
values of now. When it passes, its trajectory knows it like any other event, and its governed record
goes to the partition in which it would have been from the start. When it is refused again it stays
where it is, and a later order may try again; the audit has the new reason.

An order that cannot be carried out changes nothing. It gets an audit record with the reason and
never holds up its partition.
"""

import hashlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from confluent_kafka import Message

from atdp.governance.decision_records import RecordFacts, about_order
from atdp.governance.decisions import GovernanceDecision, OrderFacts, OutputRecord, RawRecord
from atdp.governance.errors import GovernanceError, HomeUnavailable, KeyDestroyed, SecretsError
from atdp.governance.learned.trajectories import Trajectories
from atdp.governance.quarantine import open_raw, unopened_raw
from atdp.governance.record_governor import RecordGovernor
from atdp.governance.release.order import QuarantineOrder, read_order
from atdp.governance.stage.done_records import DoneRecords
from atdp.governance.stage.messages import message_time
from atdp.governance.stage.place_reader import BatchUnreadable, PlaceReader, RecordNotSigned
from atdp.governance.stage.settlement import SettlementUnfinished
from atdp.governance.stage.transaction import TransactionFailed
from atdp.runtime import UNKNOWN_TENANT, record_headers
from atdp.schemas import SchemaError, decode_record

_log = logging.getLogger("atdp.governance")
_AFTER_AUTHENTICATION: Final = frozenset({"no_policy", "undecodable", "unknown_schema"})
"""Reasons that a record without an event id can only have when its sender was authenticated. An
event id is written to quarantine only after that."""


class _NotCarriedOut(GovernanceError):
    """The order changes nothing; the message is the reason code."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CarriedOrder:
    """The outcome of an order: a decision, the raw record, and the note that it is done with."""

    decision: GovernanceDecision
    raw: RawRecord
    note: OutputRecord | None = None


class OrderExecution:
    """Carries out the orders of one worker. Not thread-safe."""

    def __init__(self, governor: RecordGovernor, reader: PlaceReader, raw_topic: str) -> None:
        self._governor = governor
        self._reader = reader
        self._raw_topic = raw_topic
        self.done = DoneRecords(self._orders_of)

    def carry_out(
        self, message: Message, now: datetime, trajectories: Trajectories
    ) -> CarriedOrder | None:
        """Return what an order leads to; None for a note, which asks for nothing.

        Raises:
            HomeUnavailable, TransactionFailed, SettlementUnfinished: it is to be read again.
        """
        order = read_order(message.value() or b"", record_headers(message), self._governor.secrets)
        if order is not None and order.action == "done":
            return None
        place = f"{message.partition()}/{message.offset()}"
        raw = RawRecord(
            key=b"",
            value=b"",
            headers=[],
            topic=message.topic() if order is None else order.source_topic,
            partition=message.partition() if order is None else order.source_partition,
            offset=message.offset() if order is None else order.source_offset,
            timestamp=message_time(message),
        )
        facts = OrderFacts(
            order_id=place if order is None else order.order_id,
            actor="unknown" if order is None else order.actor,
            place=place,
            tenant=UNKNOWN_TENANT if order is None else order.tenant_id,
        )
        try:
            if order is None:
                raise _NotCarriedOut("order_not_signed")
            return self._carry_out(order, facts, message.partition(), now, trajectories)
        except (HomeUnavailable, TransactionFailed, SettlementUnfinished):
            raise
        except _NotCarriedOut as refused:
            reason = str(refused)
        except Exception as error:  # noqa: BLE001 - one order must not stop the partition
            _log.exception("an order about a quarantined record failed", extra={"order": place})
            reason = f"internal_error:{type(error).__name__}"
        about = RecordFacts.of_order(raw, now, facts)
        return CarriedOrder(decision=about_order(about, "not_carried_out", reason), raw=raw)

    def _carry_out(
        self,
        order: QuarantineOrder,
        facts: OrderFacts,
        partition: int,
        now: datetime,
        trajectories: Trajectories,
    ) -> CarriedOrder:
        record = self._record_of(order, partition)
        facts = replace(facts, event_id=record["event_id"])
        if order.action == "discard":
            raw = unopened_raw(record)
            about = RecordFacts.of_order(raw, now, facts)
            decision = about_order(about, "discarded", record["reason"])
        else:
            facts = replace(facts, sender=_sender_of(record))
            raw = self._opened(record)
            # A record that is refused again stays in quarantine, where it is.
            decision = replace(
                self._governor.decide(raw, now, trajectories, facts), quarantined=None
            )
        note = None
        if decision.decision != "quarantined":
            self.done.put(partition, order.place)
            done = order.done(now)
            note = OutputRecord(
                key=done.log_key, value=done.encode(), headers=done.headers(self._governor.secrets)
            )
        return CarriedOrder(decision=decision, raw=raw, note=note)

    def _record_of(self, order: QuarantineOrder, partition: int) -> Mapping[str, Any]:
        """Return the quarantine record that an order is about, if it may be carried out."""
        if order.action not in ("release", "discard"):
            raise _NotCarriedOut("unknown_action")
        if (order.source_topic, order.source_partition) != (self._raw_topic, partition):
            # Its trajectory belongs to another partition, or to a topic that is not read here.
            raise _NotCarriedOut("other_partition")
        try:
            done = self.done.holds(partition, order.place)
        except BatchUnreadable:
            raise _NotCarriedOut("orders_unreadable") from None
        if done:
            raise _NotCarriedOut("already_done")
        try:
            value = self._reader.quarantined(order.quarantine_partition, order.quarantine_offset)
        except RecordNotSigned:
            raise _NotCarriedOut("record_not_signed") from None
        if value is None:
            raise _NotCarriedOut("record_gone")
        try:
            name, record = decode_record(value)
        except SchemaError:
            raise _NotCarriedOut("record_unreadable") from None
        same = ("tenant_id", "source_topic", "source_partition", "source_offset")
        if name != "quarantine" or any(record[each] != getattr(order, each) for each in same):
            raise _NotCarriedOut("other_record")
        return record

    def _opened(self, record: Mapping[str, Any]) -> RawRecord:
        if not record["payload_encrypted"]:
            return self._read_again(record)
        if record["envelope_encrypted"] is None and _sender_of(record) is None:
            raise _NotCarriedOut("sender_not_kept")
        try:
            return open_raw(self._governor.secrets, record)
        except KeyDestroyed:
            raise _NotCarriedOut("no_key") from None
        except SecretsError:
            raise _NotCarriedOut("payload_altered") from None

    def _read_again(self, record: Mapping[str, Any]) -> RawRecord:
        """Return a record whose payload was not kept, from its place in the raw topic."""
        try:
            raw = self._reader.raw(record["source_partition"], record["source_offset"])
        except BatchUnreadable:
            raw = None
        if raw is None or hashlib.sha256(raw.value).hexdigest() not in (record["detail"] or ""):
            raise _NotCarriedOut("payload_not_kept")
        return raw

    def _orders_of(self, partition: int) -> list[QuarantineOrder]:
        keys = self._governor.secrets
        read = (
            read_order(message.value() or b"", record_headers(message), keys)
            for message in self._reader.orders(partition)
        )
        return [order for order in read if order is not None]


def _sender_of(record: Mapping[str, Any]) -> str | None:
    """Return the tenant of the sender of a record of version 1 that was authenticated, else None.

    Records of version 2 keep the headers, and those without a payload are read again with theirs:
    their sender is authenticated again.
    """
    known = record["event_id"] is not None or record["reason"] in _AFTER_AUTHENTICATION
    keeps_headers = record["envelope_encrypted"] is not None or not record["payload_encrypted"]
    if keeps_headers or not known:
        return None
    tenant: str = record["tenant_id"]
    return None if tenant == UNKNOWN_TENANT else tenant
