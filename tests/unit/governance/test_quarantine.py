"""Quarantined payloads are sealed with the home's master secret, or kept by hash and size only."""

import dataclasses
import hashlib
from pathlib import Path

import pytest

from atdp.governance.errors import SecretsError
from atdp.governance.master_secret import MasterSecret, load_master_secret
from atdp.governance.quarantine import unseal
from atdp.governance.record_governor import RecordGovernor
from atdp.runtime.keys import KeyStore
from atdp.schemas import SigningKey, decode_record, signed_headers

from .raw_records import NOW, raw


def test_a_payload_opens_only_with_the_key_and_at_its_place(
    governor: RecordGovernor, store: KeyStore
) -> None:
    key, _ = store.create("acme", "agent")
    record = raw(key, tenant="globex")
    result = governor.decide(record, NOW)
    assert result.quarantined is not None
    sealed = decode_record(result.quarantined.value)[1]
    assert unseal(governor.secret, sealed) == record.value
    with pytest.raises(SecretsError, match="altered"):
        unseal(governor.secret, {**sealed, "source_offset": 8})
    with pytest.raises(SecretsError, match="k1"):
        unseal(MasterSecret("k2", b"n" * 32), sealed)


def test_the_master_secret_is_created_once_kept_private_and_checked(tmp_path: Path) -> None:
    path = tmp_path / "secrets" / "governance.json"
    made = load_master_secret(path)
    assert load_master_secret(path) == made
    assert path.stat().st_mode & 0o777 == 0o600
    assert made.quarantine_key("acme") != made.quarantine_key("globex")
    assert made.master.hex() not in repr(made)
    path.chmod(0o644)
    with pytest.raises(SecretsError, match="chmod 600"):
        load_master_secret(path)
    path.chmod(0o600)
    path.write_text("{}")
    with pytest.raises(SecretsError, match="damaged"):
        load_master_secret(path)


def test_a_record_too_large_to_keep_is_quarantined_by_hash_and_size(
    governor: RecordGovernor, store: KeyStore
) -> None:
    key, _ = store.create("acme", "agent")
    value = b"\0" * 12_000_000  # 12 KB on the wire: compressed, it passes the topic's own bound
    for signed in (signed_headers(SigningKey.parse(key), value), []):
        record = dataclasses.replace(raw(key), value=value, headers=signed)
        result = governor.decide(record, NOW)
        assert (result.decision, result.reason) == ("quarantined", "too_large")
        assert result.quarantined is not None
        assert len(result.quarantined.value) < 1_000
        kept = decode_record(result.quarantined.value)[1]
        assert (
            f"12000000 bytes with the SHA-256 {hashlib.sha256(value).hexdigest()}" in kept["detail"]
        )
        with pytest.raises(SecretsError, match="was not kept"):
            unseal(governor.secret, kept)
