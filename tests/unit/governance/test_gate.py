"""The gate over bytes: every record ends in one decision, and what is set aside is sealed."""

import dataclasses
import hashlib
import io
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import fastavro
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from atdp.governance.errors import HomeUnavailable, SecretsError
from atdp.governance.gate import Gate, RawRecord
from atdp.governance.govern import GovernedEvent, TenantGate, findings_records
from atdp.governance.master_secret import MasterSecret, load_master_secret
from atdp.governance.policy import PolicyStore, install_default_policy
from atdp.governance.quarantine import unseal
from atdp.governance.walk.strings import Found
from atdp.runtime.errors import KeyStoreError
from atdp.runtime.keys import ApiKey, KeyStore
from atdp.runtime.service.logs import JsonFormatter
from atdp.schemas import (
    Agent,
    Event,
    Message as ChatMessage,
    Observation,
    Part,
    SigningKey,
    Source,
    decode_record,
    encode,
    new_event_id,
    newest,
    signed_headers,
)

NOW = datetime(2026, 11, 21, tzinfo=UTC)


class NoTokenizers:
    def readings(self, tokenizer_hash: str, ids: Sequence[int]) -> None:
        return None


@pytest.fixture
def store(tmp_path: Path) -> KeyStore:
    return KeyStore(tmp_path / "keys.sqlite")


@pytest.fixture
def gate(tmp_path: Path, store: KeyStore) -> Gate:
    install_default_policy(tmp_path / "policies")
    policies = PolicyStore(tmp_path / "policies")
    policies.refresh()
    return Gate(
        keys=store.get,
        policies=policies,
        secret=MasterSecret("k1", b"m" * 32),
        tokenizers=NoTokenizers(),
    )


def raw(
    key: ApiKey, *, text: str = "hello", tenant: str = "acme", trajectory: str = "t"
) -> RawRecord:
    event = Event(
        event_id=new_event_id(),
        tenant_id=tenant,  # type: ignore[arg-type]
        trajectory_id=trajectory,  # type: ignore[arg-type]
        producer_id="p",
        seq=0,
        occurred_at=NOW,
        agent=Agent(id="a"),
        source=Source(format="test"),
        body=Observation(messages=(ChatMessage(role="user", parts=(Part(text=text),)),)),
    )
    value = encode(event)
    return RawRecord(
        value=value,
        headers=signed_headers(SigningKey.parse(key), value),
        topic="raw",
        partition=1,
        offset=7,
        timestamp=NOW,
    )


def test_a_clean_event_passes_and_one_with_a_finding_is_changed(
    gate: Gate, store: KeyStore
) -> None:
    key, _ = store.create("acme", "agent")
    assert gate.decide(raw(key), NOW).decision == "passed"
    decided = gate.decide(raw(key, text="I am bob@x.org"), NOW)
    assert decided.decision == "changed"
    assert [one.path for one in decided.found] == ["$.observation.messages[*].parts[*].text"]


def test_the_key_is_made_of_governed_ids(gate: Gate, store: KeyStore) -> None:
    key, _ = store.create("acme", "agent")
    decided = gate.decide(raw(key, trajectory="chat of bob@x.org"), NOW)
    assert decided.governed is not None
    assert decided.governed.key.startswith(b"acme/chat of <EMAIL_ADDRESS_")
    audit = decode_record(decided.audit.value)[1]
    assert decided.audit.key == decided.governed.key
    assert audit["trajectory_id"] == decode_record(decided.governed.value)[1]["trajectory_id"]


def test_an_operator_may_emit_for_any_tenant_and_a_revoked_key_for_none(
    gate: Gate, store: KeyStore
) -> None:
    operator, _ = store.create("*", "operator")
    assert gate.decide(raw(operator, tenant="initech"), NOW).decision == "passed"
    key, principal = store.create("acme", "agent")
    store.revoke(principal.key_id)
    decided = gate.decide(raw(key), NOW)
    assert (decided.decision, decided.reason, decided.tenant) == (
        "quarantined",
        "revoked_key",
        "unknown",
    )


def test_an_unknown_key_and_altered_bytes_are_refused(gate: Gate, store: KeyStore) -> None:
    assert gate.decide(raw(ApiKey.generate()), NOW).reason == "unknown_key"
    key, _ = store.create("acme", "agent")
    record = raw(key)
    altered = dataclasses.replace(record, value=record.value + b"x")
    assert gate.decide(altered, NOW).reason == "bad_signature"


def test_a_failing_recognizer_quarantines_and_says_nothing_of_the_text(
    gate: Gate, store: KeyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, _ = store.create("acme", "agent")

    class Failing:
        entity = None
        context: frozenset[str] = frozenset()
        best_score = 1.0

        def scan(self, text: str) -> Sequence[object]:
            raise ValueError(text)

    policy = gate.policies.policy_for("acme")
    assert policy is not None
    monkeypatch.setattr(policy.scanner, "_detectors", ((Failing(), None),))
    decided = gate.decide(raw(key, text="a text nobody may see"), NOW)
    assert (decided.decision, decided.reason) == ("quarantined", "detector_error")
    assert decided.quarantined is not None
    assert b"nobody may see" not in decided.quarantined.value + decided.audit.value


def test_a_fault_of_our_own_quarantines_too(
    gate: Gate, store: KeyStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    key, _ = store.create("acme", "agent")

    def broken(self: object, record: object, now: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(TenantGate, "govern", broken)
    assert gate.decide(raw(key), NOW).reason == "internal_error"
    assert "could not be governed" in caplog.text


def test_a_governed_event_that_would_not_fit_its_topic_is_quarantined(
    gate: Gate, store: KeyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, _ = store.create("acme", "agent")
    monkeypatch.setattr("atdp.governance.gate.MAX_VALUE_BYTES", 100)
    decided = gate.decide(raw(key), NOW)
    assert (decided.decision, decided.reason, decided.governed) == (
        "quarantined",
        "too_large",
        None,
    )


def test_quarantine_opens_only_with_the_key_and_at_its_place(gate: Gate, store: KeyStore) -> None:
    key, _ = store.create("acme", "agent")
    record = raw(key, tenant="globex")
    decided = gate.decide(record, NOW)
    assert decided.quarantined is not None
    sealed = decode_record(decided.quarantined.value)[1]
    assert unseal(gate.secret, sealed) == record.value
    with pytest.raises(SecretsError, match="altered"):
        unseal(gate.secret, {**sealed, "source_offset": 8})
    with pytest.raises(SecretsError, match="k1"):
        unseal(MasterSecret("k2", b"n" * 32), sealed)


def test_the_same_record_gives_the_same_governed_bytes_and_only_the_time_differs(
    gate: Gate, store: KeyStore
) -> None:
    key, _ = store.create("acme", "agent")
    record = raw(key, text="bob@x.org")
    one, two = gate.decide(record, NOW), gate.decide(record, NOW)
    assert one == two
    later = gate.decide(record, NOW + timedelta(hours=1))
    assert later.governed is not None
    assert one.governed is not None
    first, second = (decode_record(each.value)[1] for each in (one.governed, later.governed))
    assert first["governance"].pop("governed_at") != second["governance"].pop("governed_at")
    assert first == second


def test_the_master_secret_is_made_once_kept_private_and_checked(tmp_path: Path) -> None:
    path = tmp_path / "secrets" / "governance.json"
    made = load_master_secret(path)
    assert load_master_secret(path) == made
    assert path.stat().st_mode & 0o777 == 0o600
    assert made.tenant_key("acme") != made.tenant_key("globex")
    assert made.tenant_key("acme").secret != made.quarantine_key("acme")
    assert made.master.hex() not in repr(made)
    path.chmod(0o644)
    with pytest.raises(SecretsError, match="chmod 600"):
        load_master_secret(path)
    path.chmod(0o600)
    path.write_text("{}")
    with pytest.raises(SecretsError, match="damaged"):
        load_master_secret(path)


def test_a_number_that_the_lakes_reader_would_choke_on_is_quarantined(
    gate: Gate, store: KeyStore
) -> None:
    key, _ = store.create("acme", "agent")
    record = raw(key, text="536-90-4399")
    name, event = decode_record(record.value)
    # What another encoder writes for attempt=2**40: fastavro itself does not check.
    value = record.value[:10] + foreign_body({**event, "attempt": 1 << 40})
    decided = gate.decide(
        dataclasses.replace(
            record, value=value, headers=signed_headers(SigningKey.parse(key), value)
        ),
        NOW,
    )
    assert (name, decided.decision, decided.reason) == ("event", "quarantined", "undecodable")
    assert decided.quarantined is not None
    detail = decode_record(decided.quarantined.value)[1]["detail"]
    assert "$.attempt: expected an integer of 32 bits" in detail


def foreign_body(event: dict[str, Any]) -> bytes:
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, newest("event").parsed, event)
    return buffer.getvalue()


def test_a_record_too_large_to_keep_is_quarantined_by_hash_and_size(
    gate: Gate, store: KeyStore
) -> None:
    key, _ = store.create("acme", "agent")
    value = b"\0" * 12_000_000  # 12 KB on the wire: compressed, it passes the topic's own bound
    for signed in (signed_headers(SigningKey.parse(key), value), []):
        record = dataclasses.replace(raw(key), value=value, headers=signed)
        decided = gate.decide(record, NOW)
        assert (decided.decision, decided.reason) == ("quarantined", "too_large")
        assert decided.quarantined is not None
        assert len(decided.quarantined.value) < 1_000
        kept = decode_record(decided.quarantined.value)[1]
        assert (
            f"12000000 bytes with the SHA-256 {hashlib.sha256(value).hexdigest()}" in kept["detail"]
        )
        with pytest.raises(SecretsError, match="too large to keep"):
            unseal(gate.secret, kept)


def deep_findings(count: int) -> tuple[Found, ...]:
    path = "$.observation.messages[*].parts[*].text#" + "".join(f".{'k' * 38}é" for _ in range(180))
    return tuple(
        Found(f"{path}.{number}", "EMAIL_ADDRESS", "pseudonym", 1) for number in range(count)
    )


def test_no_number_of_findings_at_no_depth_makes_an_audit_record_the_broker_refuses(
    gate: Gate, store: KeyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, _ = store.create("acme", "agent")
    governed = TenantGate.govern

    def with_many_findings(self: TenantGate, record: Any, now: datetime) -> GovernedEvent:
        return dataclasses.replace(governed(self, record, now), found=deep_findings(2_000))

    monkeypatch.setattr(TenantGate, "govern", with_many_findings)
    decided = gate.decide(raw(key), NOW)
    assert len(decided.audit.value) < 300_000
    findings = decode_record(decided.audit.value)[1]["findings"]
    assert sum(one["count"] for one in findings) == 2_000
    assert findings[-1]["path"] == "…"
    assert all(len(one["path"]) <= 300 for one in findings)

    monkeypatch.setattr("atdp.governance.gate.MAX_AUDIT_BYTES", 1_000)
    (only,) = decode_record(gate.decide(raw(key), NOW).audit.value)[1]["findings"]
    assert (only["path"], only["count"]) == ("…", 2_000)


def test_findings_are_shortened_to_the_same_however_often() -> None:
    once = findings_records(deep_findings(900))
    again = findings_records(tuple(Found(**one) for one in once))
    assert once == again


def test_a_record_that_takes_longer_than_one_may_is_quarantined_and_the_next_is_not(
    gate: Gate, store: KeyStore
) -> None:
    key, _ = store.create("acme", "agent")
    gate.decide(raw(key, text="warm up"), NOW)
    gate.record_s = 0.05
    decided = gate.decide(raw(key, text="415 555 2671 " * 5_000), NOW)
    assert (decided.decision, decided.reason, decided.governed) == (
        "quarantined",
        "too_costly",
        None,
    )
    gate.record_s = 20.0
    assert gate.decide(raw(key), NOW).decision == "passed"


def test_a_key_store_that_cannot_be_read_is_nobodys_fault(gate: Gate, store: KeyStore) -> None:
    key, _ = store.create("acme", "agent")
    record = raw(key)
    gate.check()
    store.close()
    with pytest.raises(HomeUnavailable, match="key store"):
        gate.decide(record, NOW)
    with pytest.raises(HomeUnavailable, match="key store"):
        gate.check()


def test_what_a_key_sent_before_it_was_revoked_is_told_by_the_brokers_clock_alone(
    gate: Gate, store: KeyStore
) -> None:
    key, principal = store.create("acme", "agent")
    child, _ = store.create_session_key(principal, tenant="acme", session="{}")
    before = datetime.now(UTC) - timedelta(seconds=1)
    store.revoke(principal.key_id)
    after = datetime.now(UTC) + timedelta(seconds=1)
    for each in (key, child):
        record = raw(each)
        assert gate.decide(record, NOW).reason == "revoked_key"
        sent = dataclasses.replace(record, timestamp=before)
        assert gate.decide(sent, NOW).reason == "revoked_key"  # says the producer
        assert gate.decide(dataclasses.replace(sent, appended=True), NOW).decision == "passed"
        late = dataclasses.replace(record, timestamp=after, appended=True)
        assert gate.decide(late, NOW).reason == "revoked_key"


@pytest.mark.parametrize(
    "tenant", ["", "..", "a/b", "x" * 64, "a%b", "é", "a\x00b", "a'b", "unknown", "*"]
)
def test_a_name_that_no_tenant_can_have_is_refused_whoever_signs(
    gate: Gate, store: KeyStore, tenant: str
) -> None:
    operator, _ = store.create("*", "operator")
    decided = gate.decide(raw(operator, tenant=tenant), NOW)
    assert (decided.decision, decided.reason, decided.tenant) == (
        "quarantined",
        "bad_tenant",
        "unknown",
    )
    with pytest.raises(KeyStoreError):
        store.create(tenant, "agent")


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(place=st.integers(0, 400), byte=st.integers(0, 255), cut=st.booleans())
def test_whatever_is_damaged_no_log_line_audit_or_reason_quotes_the_event(
    gate: Gate, store: KeyStore, caplog: pytest.LogCaptureFixture, place: int, byte: int, cut: bool
) -> None:
    key, _ = store.create("acme", "agent")
    value = bytearray(raw(key, text="536-90-4399 Jane", trajectory="536-90-4399").value)
    place = 10 + place % (len(value) - 10)
    value[place] = byte
    damaged = bytes(value[:place] if cut else value)
    record = dataclasses.replace(
        raw(key), value=damaged, headers=signed_headers(SigningKey.parse(key), damaged)
    )
    decided = gate.decide(record, NOW)
    said = decided.audit.value + (decided.quarantined.value if decided.quarantined else b"")
    assert b"536-90-4399" not in said
    shown = JsonFormatter("governance")
    assert all("536-90-4399" not in shown.format(line) for line in caplog.records)
