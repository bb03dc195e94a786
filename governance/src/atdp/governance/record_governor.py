"""Decides about raw records: bytes in, a decision with all records to write out.

Every record ends in exactly one decision, and every decision has an audit record: governed
(`passed`, `changed`), quarantined, or dropped by policy. Any fault that concerns one record, in
this code or in a recognizer, leads to quarantine. Only faults of the home itself (policies, keys,
secrets) halt governance as a whole.
"""

import logging
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from atdp.governance.authenticate import KeyLookup, authenticate, check_tenant, stored_key
from atdp.governance.byte_lru import ByteLru
from atdp.governance.cpu_budget import RECORD_S, cpu_budget
from atdp.governance.decision_records import (
    MAX_RAW_BYTES,
    RecordFacts,
    dropped,
    passed,
    quarantined,
)
from atdp.governance.decisions import GovernanceDecision, RawRecord
from atdp.governance.errors import EventDropped, HomeUnavailable, Refusal
from atdp.governance.master_secret import MasterSecret
from atdp.governance.policy.store import PolicyStore
from atdp.governance.tenant_governor import GovernedEvent, TenantGovernor
from atdp.governance.tokenizer_folder import Tokenizers
from atdp.governance.walk.string_governor import CACHE_BYTES, GovernedString
from atdp.schemas import SchemaError, UnknownSchema, check_record, decode_record

_MAX_TENANTS: Final = 1_000
"""Tenants whose governors are kept. Making another one takes microseconds."""

_log = logging.getLogger("atdp.governance")


@dataclass(slots=True)
class RecordGovernor:
    """Decides about raw records of all tenants. Not thread-safe.

    The caller refreshes `policies` between transactions, and calls `forget_tenants` after a change.
    """

    keys: KeyLookup
    policies: PolicyStore
    secret: MasterSecret
    tokenizers: Tokenizers
    record_s: float = RECORD_S
    """Seconds of CPU time for one record. A record that needs more is quarantined as
    `too_costly`."""
    _tenants: OrderedDict[tuple[str, str], TenantGovernor] = field(default_factory=OrderedDict)
    """Governors by tenant and policy hash, the least recently used first."""
    _cache: ByteLru[GovernedString] = field(default_factory=lambda: ByteLru(CACHE_BYTES))

    def decide(self, raw: RawRecord, now: datetime) -> GovernanceDecision:
        """Return the decision about one record; faults of the record itself never raise.

        Raises:
            HomeUnavailable: nothing can be decided now; the record is to be read again.
        """
        facts = RecordFacts(raw=raw, now=now)
        try:
            with cpu_budget(self.record_s):
                governed = self._govern(facts)
            return passed(facts, governed)
        except EventDropped as drop:
            return dropped(facts, drop)
        except Refusal as refusal:
            return quarantined(facts, refusal, self.secret)
        except HomeUnavailable:
            raise
        except Exception as error:  # noqa: BLE001 - every fault must become a quarantine
            # A programming error that one record triggers must neither let the record pass nor
            # stop its partition for all others.
            _log.exception(
                "a record could not be governed",
                extra={"partition": raw.partition, "offset": raw.offset},
            )
            fault = Refusal("internal_error", type(error).__name__)
            return quarantined(facts, fault, self.secret)

    def check_home(self) -> None:
        """Check that the key store can be read.

        Raises:
            HomeUnavailable: it cannot be read.
        """
        stored_key(self.keys, "")

    def forget_tenants(self) -> None:
        """Drop the governors that were built from the previous policies."""
        self._tenants.clear()

    def _govern(self, facts: RecordFacts) -> GovernedEvent:
        raw = facts.raw
        if len(raw.value) > MAX_RAW_BYTES:
            raise Refusal("too_large", f"the record has more than {MAX_RAW_BYTES} bytes")
        principal = authenticate(
            raw.value, raw.headers, self.keys, appended_at=raw.timestamp if raw.appended else None
        )
        # A key of the role operator belongs to no tenant; then only the event names one.
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
        governor = self._tenant_governor(facts.tenant)
        facts.policy = governor.policy.id, governor.policy.version, governor.policy.content_hash
        # From here on a refusal can name the event, but only by its governed identifiers.
        facts.event_id = governor.strings.identifier(record["event_id"]).text
        facts.trajectory_id = governor.strings.identifier(record["trajectory_id"]).text
        _require_contract(record, facts.now)
        facts.occurred_at = record["occurred_at"]
        return governor.govern(record, facts.now)

    def _tenant_governor(self, tenant: str) -> TenantGovernor:
        policy = self.policies.policy_for(tenant)
        if policy is None:
            raise Refusal("no_policy", "no policy applies to the tenant")
        key = tenant, policy.content_hash
        governor = self._tenants.get(key)
        if governor is None:
            governor = self._tenants[key] = TenantGovernor.of(
                tenant,
                policy,
                self.policies.terms_of(tenant),
                self.secret.tenant_key(tenant),
                self.tokenizers,
                self._cache,
            )
            if len(self._tenants) > _MAX_TENANTS:
                self._tenants.popitem(last=False)
        self._tenants.move_to_end(key)
        return governor


def _require_contract(record: Mapping[str, Any], now: datetime) -> None:
    """Refuse an event that breaks rules of the contract; the refusal names the rules alone."""
    if violations := check_record(record, now=now):
        rules = ", ".join(sorted({violation.rule_id for violation in violations}))
        raise Refusal("contract_violation", f"the event breaks rules of the contract: {rules}")
