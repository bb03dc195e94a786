"""The findings of records have a bound in bytes, whatever was replaced."""

import dataclasses
from datetime import datetime
from typing import Any

import pytest

from atdp.governance.judgements import RecordSender
from atdp.governance.learned.learned_set import LearnedSet
from atdp.governance.record_governor import RecordGovernor
from atdp.governance.replacements import Replacement, finding_records
from atdp.governance.tenant_governor import GovernedEvent, TenantGovernor
from atdp.runtime.keys import KeyStore
from atdp.schemas import decode_record

from .raw_records import NOW, raw


def deep_findings(count: int) -> tuple[Replacement, ...]:
    path = "$.observation.messages[*].parts[*].text#" + "".join(f".{'k' * 38}é" for _ in range(180))
    return tuple(
        Replacement(f"{path}.{number}", "EMAIL_ADDRESS", "pseudonym", 1) for number in range(count)
    )


def test_shortening_findings_twice_is_shortening_them_once() -> None:
    once = finding_records(deep_findings(900))
    again = finding_records(tuple(Replacement(**one) for one in once))
    assert once == again


def test_no_number_of_findings_makes_an_audit_record_that_the_broker_refuses(
    governor: RecordGovernor, store: KeyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, _ = store.create("acme", "agent")
    governed = TenantGovernor.govern

    def with_many_findings(
        self: TenantGovernor, record: Any, now: datetime, *known: LearnedSet, sender: RecordSender
    ) -> GovernedEvent:
        event = governed(self, record, now, *known, sender=sender)
        return dataclasses.replace(event, replacements=deep_findings(2_000))

    monkeypatch.setattr(TenantGovernor, "govern", with_many_findings)
    result = governor.decide(raw(key), NOW)
    assert len(result.audit.value) < 300_000
    findings = decode_record(result.audit.value)[1]["findings"]
    assert sum(one["count"] for one in findings) == 2_000
    assert findings[-1]["path"] == "…"
    assert all(len(one["path"]) <= 300 for one in findings)

    monkeypatch.setattr("atdp.governance.decision_records.MAX_AUDIT_BYTES", 1_000)
    (only,) = decode_record(governor.decide(raw(key), NOW).audit.value)[1]["findings"]
    assert (only["path"], only["count"]) == ("…", 2_000)
