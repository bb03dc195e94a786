"""The gate: raw bytes in, a decision with everything that is to be written out.

Every record ends in exactly one decision, and every decision has an audit record: governed
(`passed`, `changed`), quarantined, or dropped by policy. Whatever goes wrong with a record, in our
code or in a recognizer, is a quarantine; only the home's own state (policies, keys, secrets) can
stop the gate as a whole.
"""

import hashlib
import logging
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

from atdp.governance.authenticate import KeyLookup, authenticate, check_tenant, look_up
from atdp.governance.budget import RECORD_S, spending
from atdp.governance.byte_lru import Memory
from atdp.governance.engine import engine_version
from atdp.governance.errors import EventDropped, HomeUnavailable, Refusal
from atdp.governance.fidelity import Tokenizers
from atdp.governance.govern import GovernedEvent, TenantGate, findings_records
from atdp.governance.master_secret import MasterSecret
from atdp.governance.policy.store import PolicyStore
from atdp.governance.quarantine import pointer, seal
from atdp.governance.walk.strings import MEMORY_BYTES, Found, Governed
from atdp.runtime import UNKNOWN_TENANT
from atdp.schemas import (
    HEADER_BYTES,
    REDELIVERY,
    SchemaError,
    UnknownSchema,
    decode_record,
    encode_record,
    header,
    record_key,
)

Decision: TypeAlias = Literal["passed", "changed", "quarantined", "dropped"]
MAX_VALUE_BYTES = 8_000_000
"""Largest governed value; below the topic's `max.message.bytes`, so that no record can make every
transaction fail."""

MAX_RAW_BYTES = 8_388_608
"""Largest raw value that is looked at and kept in quarantine: the raw topic's own bound. That one
is on compressed bytes, so larger values do arrive; of them only hash and size are kept."""
MAX_AUDIT_BYTES = 900_000
"""Below Kafka's default bound on a record, which an audit topic made by other hands may have."""

_TENANTS = 1_000
"""Tenants whose gates are kept; another's is made in microseconds."""

_log = logging.getLogger("atdp.governance")


@dataclass(frozen=True, kw_only=True, slots=True)
class RawRecord:
    """A record of the raw topic, as consumed."""

    value: bytes
    headers: Sequence[tuple[str, bytes]]
    topic: str
    partition: int
    offset: int
    timestamp: datetime
    appended: bool = False
    """Whether `timestamp` is the broker's (log append time), not the producer's."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Output:
    """A record to write."""

    key: bytes
    value: bytes
    headers: list[tuple[str, bytes]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Decided:
    """One decision.

    At most one of `governed` and `quarantined` is set; `dropped` has neither. `audit` always is.
    """

    decision: Decision
    reason: str | None
    tenant: str
    found: tuple[Found, ...]
    governed: Output | None = None
    quarantined: Output | None = None
    audit: Output


@dataclass
class _Facts:
    """What is known of a record so far; fills up while it is judged, so that a refusal can say as much as is certain."""

    tenant: str = UNKNOWN_TENANT
    event_id: str | None = None
    trajectory_id: str | None = None
    kind: str | None = None
    occurred_at: datetime | None = None
    policy: tuple[str, int, str] | None = None


@dataclass
class Gate:
    """Decides on raw records.

    `policies` is refreshed by whoever drives the gate, between transactions.
    """

    keys: KeyLookup
    policies: PolicyStore
    secret: MasterSecret
    tokenizers: Tokenizers
    record_s: float = RECORD_S
    """Seconds of CPU time that one record may take; what takes longer is quarantined as
    `too_costly`."""
    _tenants: OrderedDict[tuple[str, str], TenantGate] = field(default_factory=OrderedDict)
    _memory: Memory[Governed] = field(default_factory=lambda: Memory(MEMORY_BYTES))

    def decide(self, raw: RawRecord, now: datetime) -> Decided:
        """The decision on one record; never raises for anything that is wrong with the record.

        Raises:
            HomeUnavailable: nothing can be decided now; the record is to be read again.
        """
        facts = _Facts()
        try:
            with spending(self.record_s):
                governed = self._govern(raw, facts, now)
            return self._passed(raw, facts, governed, now)
        except EventDropped as drop:
            reason = f"policy_drop:{drop.entity}"
            return Decided(
                decision="dropped",
                reason=reason,
                tenant=facts.tenant,
                found=(),
                audit=self._audit(raw, facts, "dropped", now, reason=reason),
            )
        except Refusal as refusal:
            return self._refused(raw, facts, refusal, now)
        except HomeUnavailable:
            raise
        except Exception as error:  # noqa: BLE001 - every fault must become a quarantine
            # A fault of ours in one record must neither let it pass nor stop the partition for all
            # others.
            _log.exception(
                "a record could not be governed",
                extra={"partition": raw.partition, "offset": raw.offset},
            )
            return self._refused(raw, facts, Refusal("internal_error", type(error).__name__), now)

    def check(self) -> None:
        """Ask what decisions depend on.

        Raises:
            HomeUnavailable: it does not answer.
        """
        look_up(self.keys, "")

    def forget(self) -> None:
        """Drop what was built from policies that have changed since."""
        self._tenants.clear()

    def _govern(self, raw: RawRecord, facts: _Facts, now: datetime) -> GovernedEvent:
        if len(raw.value) > MAX_RAW_BYTES:
            raise Refusal("too_large", f"the record has more than {MAX_RAW_BYTES} bytes")
        principal = authenticate(
            raw.value, raw.headers, self.keys, appended_at=raw.timestamp if raw.appended else None
        )
        if principal.role != "operator":
            facts.tenant = principal.tenant
        try:
            name, record = decode_record(raw.value)
        except UnknownSchema as error:
            raise Refusal("unknown_schema", str(error)) from error
        except SchemaError as error:
            raise Refusal("undecodable", f"the record is not a readable event: {error}") from error
        if name != "event":
            raise Refusal("unknown_schema", f"a record of {name} is no event")
        check_tenant(principal, record["tenant_id"])
        facts.tenant = record["tenant_id"]
        facts.kind = record["kind"]
        facts.occurred_at = record["occurred_at"]
        gate = self._tenant_gate(facts.tenant)
        facts.policy = (gate.policy.id, gate.policy.version, gate.policy.content_hash)
        # From here on identifiers are known, but only as they are after governance.
        facts.event_id = gate.strings.identifier(record["event_id"]).text
        facts.trajectory_id = gate.strings.identifier(record["trajectory_id"]).text
        return gate.govern(record, now)

    def _tenant_gate(self, tenant: str) -> TenantGate:
        policy = self.policies.policy_for(tenant)
        if policy is None:
            raise Refusal("no_policy", "no policy applies to the tenant")
        known = self._tenants.get((tenant, policy.content_hash))
        if known is None:
            known = self._tenants[tenant, policy.content_hash] = TenantGate.of(
                tenant,
                policy,
                self.policies.terms_of(tenant),
                self.secret.tenant_key(tenant),
                self.tokenizers,
                self._memory,
            )
            if len(self._tenants) > _TENANTS:
                self._tenants.popitem(last=False)
        self._tenants.move_to_end((tenant, policy.content_hash))
        return known

    def _passed(
        self, raw: RawRecord, facts: _Facts, event: GovernedEvent, now: datetime
    ) -> Decided:
        value = encode_record("event", event.record)
        if len(value) > MAX_VALUE_BYTES:
            return self._refused(
                raw,
                facts,
                Refusal("too_large", f"the governed event has more than {MAX_VALUE_BYTES} bytes"),
                now,
            )
        decision: Decision = "changed" if event.changed else "passed"
        digest = hashlib.sha256(value).hexdigest()
        key = record_key(event.record["tenant_id"], event.record["trajectory_id"])
        return Decided(
            decision=decision,
            reason=None,
            tenant=facts.tenant,
            found=event.found,
            governed=Output(key=key, value=value, headers=_kept_headers(raw)),
            audit=self._audit(raw, facts, decision, now, found=event.found, output_sha256=digest),
        )

    def _refused(self, raw: RawRecord, facts: _Facts, refusal: Refusal, now: datetime) -> Decided:
        detail, sealed = refusal.detail, b""
        if len(raw.value) <= MAX_RAW_BYTES:
            where = pointer(raw.topic, raw.partition, raw.offset)
            sealed = seal(self.secret, facts.tenant, raw.value, where)
        else:
            digest = hashlib.sha256(raw.value).hexdigest()
            detail += f"; not kept: {len(raw.value)} bytes with the SHA-256 {digest}"
        record = {
            "event_id": facts.event_id,
            "tenant_id": facts.tenant,
            "reason": refusal.reason,
            "detail": detail,
            "source_topic": raw.topic,
            "source_partition": raw.partition,
            "source_offset": raw.offset,
            "schema_fingerprint": raw.value[2:HEADER_BYTES].hex() or None,
            "payload_encrypted": sealed,
            "encryption_key_id": self.secret.key_id,
            "occurred_at": raw.timestamp,
            "quarantined_at": now,
            "redelivered": _redelivered(raw),
        }
        return Decided(
            decision="quarantined",
            reason=refusal.reason,
            tenant=facts.tenant,
            found=(),
            quarantined=Output(
                key=facts.tenant.encode(),
                value=encode_record("quarantine", record),
                headers=_kept_headers(raw),
            ),
            audit=self._audit(raw, facts, "quarantined", now, reason=refusal.reason),
        )

    def _audit(
        self,
        raw: RawRecord,
        facts: _Facts,
        decision: Decision,
        now: datetime,
        *,
        reason: str | None = None,
        found: tuple[Found, ...] = (),
        output_sha256: str | None = None,
    ) -> Output:
        where = f"{raw.topic}/{raw.partition}/{raw.offset}"
        policy_id, policy_version, policy_hash = facts.policy or (None, None, None)
        record: dict[str, Any] = {
            "audit_id": where,
            "event_id": facts.event_id,
            "tenant_id": facts.tenant,
            "trajectory_id": facts.trajectory_id,
            "kind": facts.kind,
            "decision": decision,
            "reason": reason,
            "policy_id": policy_id,
            "policy_version": policy_version,
            "policy_hash": policy_hash,
            "findings": findings_records(found),
            "source_topic": raw.topic,
            "source_partition": raw.partition,
            "source_offset": raw.offset,
            "output_sha256": output_sha256,
            "engine_version": engine_version(),
            "occurred_at": facts.occurred_at or raw.timestamp,
            "decided_at": now,
            "redelivered": _redelivered(raw),
        }
        value = encode_record("audit", record)
        if len(value) > MAX_AUDIT_BYTES:
            # One record that the broker refuses would make every transaction fail for ever.
            value = encode_record(
                "audit", record | {"findings": findings_records(found, room_bytes=0)}
            )
        return Output(
            key=record_key(facts.tenant, facts.trajectory_id or where),
            value=value,
            headers=_kept_headers(raw),
        )


def utc_now() -> datetime:
    """The wall clock, for callers at the rim."""
    return datetime.now(UTC)


def _redelivered(raw: RawRecord) -> bool:
    return header(raw.headers, REDELIVERY) == b"1"


def _kept_headers(raw: RawRecord) -> list[tuple[str, bytes]]:
    return [(REDELIVERY, b"1")] if _redelivered(raw) else []
