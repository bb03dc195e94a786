"""Quarantined payloads are sealed with keys of their tenant and data subjects, or not kept."""

import dataclasses
import hashlib
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from atdp.governance.decisions import RawRecord
from atdp.governance.errors import KeyDestroyed, SecretsError
from atdp.governance.home_secrets import open_secrets
from atdp.governance.master_keys import load_master_keys, make_master_key
from atdp.governance.payload_keys import destroy_payload_keys
from atdp.governance.quarantine import open_raw, unseal
from atdp.governance.record_governor import RecordGovernor
from atdp.governance.testing import memory_secrets
from atdp.governance.wrapped_keys import WrappedKeys
from atdp.runtime import Home
from atdp.runtime.keys import ApiKey, KeyStore
from atdp.schemas import SigningKey, decode_record, encode_record, signed_headers

from .raw_records import NOW, raw

OTHER_VALUES: dict[str, Any] = {
    "event_id": "other",
    "tenant_id": "globex",
    "reason": "no_policy",
    "detail": "another",
    "source_topic": "another",
    "source_partition": 4,
    "source_offset": 8,
    "schema_fingerprint": "00",
    "occurred_at": NOW + timedelta(microseconds=1),
    "quarantined_at": NOW + timedelta(microseconds=1),
    "redelivered": True,
}


@pytest.fixture
def key(store: KeyStore) -> ApiKey:
    return store.create("acme", "agent")[0]


def about(key: ApiKey, *subjects: str, user: str | None = None, kept: bool = False) -> RawRecord:
    """Return a record that names people, and is refused for its contents unless it is `kept`."""
    record = raw(key)
    name, event = decode_record(record.value)
    stamp = {**(event["governance"] or {}), "data_subjects": list(subjects)}
    changes = {"end_user_id": user, "governance": stamp, "seq": -1}
    value = encode_record(name, event | changes)
    headers = signed_headers(SigningKey.parse(key), record.topic, record.key, value)
    return dataclasses.replace(record, value=value, headers=headers)


def refused(governor: RecordGovernor, record: RawRecord) -> dict[str, Any]:
    """Return the quarantine record of a raw record."""
    output = governor.decide(record, NOW).quarantined
    assert output is not None
    return decode_record(output.value)[1]


def test_a_payload_opens_only_in_its_own_unchanged_record(
    governor: RecordGovernor, key: ApiKey
) -> None:
    record = about(key, "ann")
    sealed = refused(governor, record)
    assert unseal(governor.secrets, sealed) == record.value
    assert open_raw(governor.secrets, sealed) == record
    assert set(sealed) == {
        *OTHER_VALUES,
        "encryption_key_id",
        "payload_encrypted",
        "envelope_encrypted",
    }
    for field, other in OTHER_VALUES.items():
        assert sealed[field] != other
        with pytest.raises(SecretsError, match="altered"):
            unseal(governor.secrets, {**sealed, field: other})
    own, subject = sealed["encryption_key_id"].split(".")
    for ids in (f"{subject}.{own}", own, f"{sealed['encryption_key_id']}.{own}"):
        with pytest.raises(SecretsError, match="altered"):
            unseal(governor.secrets, {**sealed, "encryption_key_id": ids})
    with pytest.raises(KeyDestroyed):
        unseal(memory_secrets(), sealed)


def test_a_payload_does_not_open_in_the_record_of_another(
    governor: RecordGovernor, key: ApiKey
) -> None:
    first = refused(governor, about(key))
    second = refused(governor, dataclasses.replace(about(key), offset=99))
    assert first["encryption_key_id"] == second["encryption_key_id"]
    for part in ("payload_encrypted", "envelope_encrypted"):
        with pytest.raises(SecretsError, match="altered"):
            open_raw(governor.secrets, {**second, part: first[part]})


@pytest.fixture
def people(governor: RecordGovernor, key: ApiKey, store: KeyStore) -> dict[str, dict[str, Any]]:
    globex = store.create("globex", "agent")[0]
    foreign = raw(globex, tenant="acme")
    return {
        "nobody": refused(governor, about(key)),
        "ann": refused(governor, about(key, "ann")),
        "bob": refused(governor, about(key, "bob")),
        "ann and bob": refused(governor, about(key, "ann", "bob")),
        "user ann": refused(governor, about(key, user=" Ann")),
        "globex": refused(governor, foreign),
        "unknown": refused(governor, dataclasses.replace(about(key, "ann"), headers=[])),
    }


def readable(keys: WrappedKeys, people: dict[str, dict[str, Any]]) -> set[str]:
    """Return the names of the records that open."""
    found = set()
    for name, record in people.items():
        try:
            unseal(keys, record)
        except KeyDestroyed:
            continue
        found.add(name)
    return found


def test_destroying_a_key_makes_exactly_its_payloads_unreadable(
    governor: RecordGovernor, people: dict[str, dict[str, Any]], key: ApiKey
) -> None:
    keys = governor.secrets
    assert readable(keys, people) == set(people)
    assert destroy_payload_keys(keys, "acme", ["ANN"]) == 1
    assert readable(keys, people) == {"nobody", "bob", "globex", "unknown"}
    assert destroy_payload_keys(keys, "acme", ["ann"]) == 0
    later = {"later": refused(governor, about(key, "ann"))}
    assert readable(keys, later) == {"later"}
    assert destroy_payload_keys(keys, "acme") == 3
    assert readable(keys, people | later) == {"globex", "unknown"}
    assert destroy_payload_keys(keys, "unknown") == 1
    assert readable(keys, people) == {"globex"}


def test_a_destroyed_key_is_in_no_file_of_the_home(
    tmp_path: Path, governor: RecordGovernor, key: ApiKey
) -> None:
    home = Home(tmp_path / "home")
    with open_secrets(home) as keys, open_secrets(home) as reader:
        governor.secrets = keys
        sealed = refused(governor, about(key, "ann"))
        assert unseal(reader, sealed)
        wrapped = [row[-1] for row in keys._rows("subject != ''")]
        assert len(wrapped) == 1
        files = [*home.secrets.iterdir()]
        assert any(wrapped[0] in file.read_bytes() for file in files)
        destroy_payload_keys(keys, "acme", ["ann"])
        assert not any(wrapped[0] in file.read_bytes() for file in home.secrets.iterdir())
        reader.refresh()
        with pytest.raises(KeyDestroyed):
            unseal(reader, sealed)


def test_people_are_named_by_the_ids_that_were_sent(governor: RecordGovernor) -> None:
    with pytest.raises(SecretsError, match="pseudonym"):
        destroy_payload_keys(governor.secrets, "acme", ["<DATA_SUBJECT_1a2b3c4d5e6fa7b8c>"])
    with pytest.raises(SecretsError):
        destroy_payload_keys(governor.secrets, "../acme")


@pytest.fixture
def earlier_home(tmp_path: Path) -> Home:
    """A home of the earlier form."""
    home = Home(tmp_path / "earlier")
    home.tenant_keys.mkdir(parents=True)
    content = {"key_id": "0a1b2c3d", "master": "6d" * 32}
    home.governance_secret_file.write_text(json.dumps(content))
    home.governance_secret_file.chmod(0o600)
    return home


def test_a_payload_of_the_earlier_form_opens_at_its_place_alone(
    governor: RecordGovernor, key: ApiKey, earlier_home: Home
) -> None:
    record = about(key)
    sealed = refused(governor, record)
    masters = load_master_keys(earlier_home.governance_secret_file)
    assert masters is not None
    cipher = AESGCM(masters.current.derived("atdp quarantine v1|acme"))
    place = f"{record.topic}/{record.partition}/{record.offset}".encode()
    envelope = json.dumps({"headers": {}, "appended": False}).encode()
    old = sealed | {
        "encryption_key_id": "0a1b2c3d",
        "payload_encrypted": b"n" * 12 + cipher.encrypt(b"n" * 12, record.value, place),
        "envelope_encrypted": b"e" * 12 + cipher.encrypt(b"e" * 12, envelope, place + b"#envelope"),
    }
    with open_secrets(earlier_home) as keys:
        assert open_raw(keys, old).value == record.value
        with pytest.raises(SecretsError, match="altered"):
            unseal(keys, {**old, "source_offset": 8})
        with pytest.raises(SecretsError, match="altered"):
            unseal(keys, {**old, "tenant_id": "globex"})


def test_master_keys_are_made_once_kept_private_and_checked(tmp_path: Path) -> None:
    path = tmp_path / "secrets" / "governance.json"
    assert load_master_keys(path) is None
    make_master_key(path, 1, NOW)
    made = load_master_keys(path)
    make_master_key(path, 1, NOW)
    assert made is not None
    assert load_master_keys(path) == made
    assert path.stat().st_mode & 0o777 == 0o600
    assert made.current.secret.hex() not in repr(made)
    path.chmod(0o644)
    with pytest.raises(SecretsError, match="chmod 600"):
        load_master_keys(path)
    path.chmod(0o600)
    path.write_text("{}")
    with pytest.raises(SecretsError, match="damaged"):
        load_master_keys(path)


def test_a_record_too_large_to_keep_is_quarantined_by_hash_and_size(
    governor: RecordGovernor, key: ApiKey
) -> None:
    value = b"\0" * 12_000_000  # 12 KB on the wire: compressed, it passes the topic's own bound
    signing, sent = SigningKey.parse(key), raw(key)
    for signed in (signed_headers(signing, sent.topic, sent.key, value), []):
        record = dataclasses.replace(raw(key), value=value, headers=signed)
        result = governor.decide(record, NOW)
        assert (result.decision, result.reason) == ("quarantined", "too_large")
        assert result.quarantined is not None
        assert len(result.quarantined.value) < 1_000
        kept = decode_record(result.quarantined.value)[1]
        assert (
            f"12000000 bytes with the SHA-256 {hashlib.sha256(value).hexdigest()}" in kept["detail"]
        )
        with pytest.raises(SecretsError, match="not kept"):
            unseal(governor.secrets, kept)


def test_a_record_about_too_many_people_is_not_kept(governor: RecordGovernor, key: ApiKey) -> None:
    kept = refused(governor, about(key, *map(str, range(100))))
    assert unseal(governor.secrets, kept)
    crowd = refused(governor, about(key, *map(str, range(101))))
    assert crowd["payload_encrypted"] == b""
    assert "not kept" in crowd["detail"]
