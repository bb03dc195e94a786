"""Raw records are accepted only with the signature of a key that may emit for their tenant."""

import dataclasses
from datetime import UTC, datetime, timedelta

import pytest

from atdp.governance.errors import HomeUnavailable
from atdp.governance.record_governor import RecordGovernor
from atdp.runtime.errors import KeyStoreError
from atdp.runtime.keys import ApiKey, KeyStore, SessionBinding

from .raw_records import NOW, raw

SESSION = SessionBinding(session_id="s", trajectory_id="t", attempt=0)


def test_an_operator_may_emit_for_any_tenant_and_a_revoked_key_for_none(
    governor: RecordGovernor, store: KeyStore
) -> None:
    operator, _ = store.create("*", "operator")
    assert governor.decide(raw(operator, tenant="initech"), NOW).decision == "passed"
    key, principal = store.create("acme", "agent")
    store.revoke(principal.key_id)
    result = governor.decide(raw(key), NOW)
    assert (result.decision, result.reason, result.tenant) == (
        "quarantined",
        "revoked_key",
        "unknown",
    )


def test_an_unknown_key_and_altered_bytes_are_refused(
    governor: RecordGovernor, store: KeyStore
) -> None:
    assert governor.decide(raw(ApiKey.generate()), NOW).reason == "unknown_key"
    key, _ = store.create("acme", "agent")
    record = raw(key)
    altered = dataclasses.replace(record, value=record.value + b"x")
    assert governor.decide(altered, NOW).reason == "bad_signature"


def test_a_key_store_that_cannot_be_read_is_no_fault_of_a_record(
    governor: RecordGovernor, store: KeyStore
) -> None:
    key, _ = store.create("acme", "agent")
    record = raw(key)
    governor.check_home()
    store.close()
    with pytest.raises(HomeUnavailable, match="key store"):
        governor.decide(record, NOW)
    with pytest.raises(HomeUnavailable, match="key store"):
        governor.check_home()


def test_only_the_brokers_clock_shows_what_a_key_sent_before_it_was_revoked(
    governor: RecordGovernor, store: KeyStore
) -> None:
    key, principal = store.create("acme", "agent")
    child, _ = store.create_session_key(principal, tenant="acme", session=SESSION)
    before = datetime.now(UTC) - timedelta(seconds=1)
    store.revoke(principal.key_id)
    after = datetime.now(UTC) + timedelta(seconds=1)
    for each in (key, child):
        record = raw(each)
        assert governor.decide(record, NOW).reason == "revoked_key"
        sent = dataclasses.replace(record, timestamp=before)
        assert governor.decide(sent, NOW).reason == "revoked_key"  # the stamp is the producer's
        assert governor.decide(dataclasses.replace(sent, appended=True), NOW).decision == "passed"
        late = dataclasses.replace(record, timestamp=after, appended=True)
        assert governor.decide(late, NOW).reason == "revoked_key"


def test_a_session_key_signs_for_its_own_session_only(
    governor: RecordGovernor, store: KeyStore
) -> None:
    _, parent = store.create("acme", "agent")
    key, _ = store.create_session_key(parent, tenant="acme", session=SESSION)
    assert governor.decide(raw(key), NOW).decision == "passed"
    assert governor.decide(raw(key, session="s"), NOW).decision == "passed"
    others = raw(key, trajectory="u"), raw(key, session="r"), raw(key, attempt=1)
    for record in others:
        result = governor.decide(record, NOW)
        assert (result.decision, result.reason) == ("quarantined", "session_mismatch")


@pytest.mark.parametrize(
    "tenant", ["", "..", "a/b", "x" * 64, "a%b", "é", "a\x00b", "a'b", "unknown", "*"]
)
def test_an_invalid_tenant_name_is_refused_whoever_signs(
    governor: RecordGovernor, store: KeyStore, tenant: str
) -> None:
    operator, _ = store.create("*", "operator")
    result = governor.decide(raw(operator, tenant=tenant), NOW)
    assert (result.decision, result.reason, result.tenant) == (
        "quarantined",
        "bad_tenant",
        "unknown",
    )
    with pytest.raises(KeyStoreError):
        store.create(tenant, "agent")
