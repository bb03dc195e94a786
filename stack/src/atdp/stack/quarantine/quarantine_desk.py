"""The desk of quarantine: who may see and order what, for the command line and for HTTP.

A steward acts for its own tenant, an operator for all. Payloads are raw data: they need the
permission `preview` beside that, and the register holds who saw which record before it is shown.
"""

import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from datetime import datetime
from typing import Any, Final, Literal, TypeAlias

from atdp.access import Authorizer, TenantData, open_authorizer
from atdp.governance import (
    QuarantineOrder,
    QuarantinePlace,
    open_payload,
    open_secrets,
    read_quarantined,
    send_orders,
)
from atdp.lakehouse import Lake, open_lake
from atdp.runtime import (
    ANY_TENANT,
    Home,
    KafkaSettings,
    Principal,
    Register,
    RegisterEntry,
    load_output_secret,
    open_register,
)
from atdp.stack.errors import StackError
from atdp.stack.quarantine.quarantine_list import (
    QuarantinedRecord,
    QuarantineQuery,
    count_quarantined,
    quarantined_records,
)

OrderedAction: TypeAlias = Literal["release", "discard"]
_ACCESS_AUDIT: Final = "access_audit"


class QuarantineDenied(StackError):
    """The caller may not do this with quarantined records."""


class QuarantineUnknown(StackError):
    """There is no such record that the caller may see."""


class QuarantineRefused(StackError):
    """The record has left quarantine, so nothing can be ordered about it."""


class QuarantineDesk:
    """Lists, opens and orders about the quarantined records of a home."""

    def __init__(
        self,
        home: Home,
        *,
        open_log: Callable[[], Register] | None = None,
        authorizer: Authorizer | None = None,
        topic_prefix: str = "",
    ) -> None:
        """Open the lake and the register (default: that of the home) at their first use."""
        self._home = home
        self._open_log = open_log or (lambda: open_register(home))
        self._authorizer = authorizer
        self._topic_prefix = topic_prefix
        self._lake: Lake | None = None

    def records(self, caller: Principal, query: QuarantineQuery) -> list[QuarantinedRecord]:
        """Return the records of a query that the caller may see.

        Raises:
            QuarantineDenied: the caller may not govern, or names another tenant.
            LakehouseError: the lake cannot be read.
        """
        visible = _visible_tenant(caller, query)
        self._lake = self._lake or open_lake(self._home)
        return quarantined_records(self._lake, query, visible_tenant=visible)

    def count(self, caller: Principal, query: QuarantineQuery) -> int:
        """Return how many records of a query there are beyond its limit, too.

        Raises:
            QuarantineDenied, LakehouseError: see `records`.
        """
        visible = _visible_tenant(caller, query)
        self._lake = self._lake or open_lake(self._home)
        return count_quarantined(self._lake, query, visible_tenant=visible)

    def record(self, caller: Principal, place: QuarantinePlace) -> QuarantinedRecord:
        """Return the record at a place, in whatever state it is.

        Raises:
            QuarantineUnknown: there is none, or the caller may not see it.
            QuarantineDenied, LakehouseError: see `records`.
        """
        query = QuarantineQuery(places=frozenset({place}), open_only=False)
        found = self.records(caller, query)
        if not found:
            raise QuarantineUnknown(
                f"there is no quarantined record at {place} that {caller.actor} may see; "
                "`atdp quarantine list` shows the places, some seconds after a record is refused"
            )
        return found[0]

    def payload(
        self, caller: Principal, place: QuarantinePlace, now: datetime
    ) -> Mapping[str, Any]:
        """Return the payload of a record, after the register holds that the caller sees it.

        Raises:
            QuarantineUnknown, QuarantineDenied, LakehouseError: see `record`.
            RegisterUnavailable: it cannot be recorded, so nothing is shown.
            GovernanceError: the record is gone, or cannot be opened.
        """
        listed = self.record(caller, place)
        authorizer = self._authorizer or open_authorizer(self._home)
        decision = authorizer.authorize(caller, "preview", TenantData(tenant=listed.tenant_id), now)
        body = {
            "action": "preview",
            "resource": str(place),
            "decision": "allow" if decision.allowed else "deny",
            "policies": list(decision.policies),
            "tenant": listed.tenant_id,
        }
        entry = RegisterEntry(
            kind=_ACCESS_AUDIT,
            key=str(uuid.uuid4()),
            body=body,
            actor=caller.actor,
            recorded_at=now,
        )
        with closing(self._open_log()) as register:
            register.append(entry)
        if not decision.allowed:
            why = "; ".join(decision.errors) or decision.reason
            raise QuarantineDenied(f"{caller.actor} may not see the payload of {place}: {why}")
        kafka = KafkaSettings.from_env(self._home)
        record = read_quarantined(
            place,
            kafka,
            output_secret=load_output_secret(self._home),
            topic_prefix=self._topic_prefix,
        )
        if record["tenant_id"] != listed.tenant_id:
            raise QuarantineUnknown(f"the record at {place} is not the one that the lake lists")
        with open_secrets(self._home) as secrets:
            return open_payload(secrets, record)

    def order(
        self,
        caller: Principal,
        action: OrderedAction,
        records: Sequence[QuarantinedRecord],
        *,
        reason: str,
        now: datetime,
    ) -> list[QuarantineOrder]:
        """Order the release or discard of records that `records` or `record` has returned.

        Raises:
            QuarantineDenied: the caller may not act for the tenant of one of them.
            QuarantineRefused: one of them has left quarantine.
            OrdersNotSent: the orders are not acknowledged.
        """
        everything = caller.may_act_for(ANY_TENANT)
        for each in records:
            if not caller.may("govern") or not (everything or caller.may_act_for(each.tenant_id)):
                raise QuarantineDenied(
                    f"{caller.actor} may not {action} the record at {each.place}"
                )
            if not each.is_open:
                raise QuarantineRefused(
                    f"the record at {each.place} has left quarantine: it is {each.state}"
                )
        orders = [
            QuarantineOrder(
                order_id=str(uuid.uuid4()),
                action=action,
                tenant_id=each.tenant_id,
                quarantine_partition=each.kafka_partition,
                quarantine_offset=each.kafka_offset,
                source_topic=each.source_topic,
                source_partition=each.source_partition,
                source_offset=each.source_offset,
                actor=caller.actor,
                reason=reason,
                ordered_at=now,
            )
            for each in sorted(
                records, key=lambda each: (each.source_partition, each.source_offset)
            )
        ]
        kafka = KafkaSettings.from_env(self._home)
        with open_secrets(self._home) as secrets:
            send_orders(orders, kafka, secrets, topic_prefix=self._topic_prefix)
        return orders


def _visible_tenant(caller: Principal, query: QuarantineQuery) -> str | None:
    """Return the tenant whose records a query may return to the caller; None: all.

    Raises:
        QuarantineDenied: the caller may not govern, or names another tenant.
    """
    if not caller.may("govern"):
        raise QuarantineDenied(
            f"{caller.actor} may not see quarantine; use the key of a steward or operator"
        )
    if caller.may_act_for(ANY_TENANT):
        return query.tenant
    if query.tenant not in (None, caller.tenant):
        raise QuarantineDenied(f"{caller.actor} belongs to another tenant than {query.tenant}")
    return caller.tenant
