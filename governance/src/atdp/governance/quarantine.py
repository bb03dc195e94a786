"""The encryption of quarantined records.

A quarantine record names the place where the raw record was read and the reason for the refusal. It
holds the payload under AES-256-GCM. The associated data are all other fields of the record: tenant,
reason, place, fingerprint, times, and the ids of the keys. So a ciphertext that is moved to another
record, or whose record was changed in any field, cannot be opened. Beside it, sealed in the same
way, is the *envelope*: the Kafka key and the headers that show who sent the record, so that a
released record is authenticated as it was at first. A sender may write anything into them, so they
are sealed too.

The content key is derived from the key of the tenant and of every data subject that the event
names, so destroying any of these keys makes the record unreadable
(`atdp.governance.payload_keys`). It is the same for all records about the same people. The nonce is
random (96 bits); NIST SP 800-38D allows 2^32 records under one key this way.

Records of the earlier form name one master secret, and have their place alone as associated data.
"""

import json
import os
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from atdp.governance.decisions import RawRecord
from atdp.governance.errors import SecretsError
from atdp.governance.master_keys import NONCE_BYTES
from atdp.governance.payload_keys import content_key, payload_key_ids
from atdp.governance.wrapped_keys import WrappedKeys
from atdp.schemas import KEY_ID, REDELIVERY, SIGNATURE, SIGNATURE_PATH, header

_KEPT_HEADERS: Final = (KEY_ID, SIGNATURE, SIGNATURE_PATH, REDELIVERY)
_MAX_HEADER_BYTES: Final = 2048
"""Longest header that is kept. A valid one, the path of a signature, has at most 1,056 bytes; a
record with a longer one was refused for it, and is refused again."""
_MAX_KEY_BYTES: Final = 4096
"""Longest Kafka key that is kept; one of a tenant and a trajectory has at most 2,112 bytes."""
NO_KEY: Final = ""
"""The ids of the keys in a quarantine record without a payload, which no key opens."""
_FORM: Final = "atdp quarantine v3"
_BOUND_FIELDS: Final = (
    "event_id",
    "tenant_id",
    "reason",
    "detail",
    "source_topic",
    "source_partition",
    "source_offset",
    "schema_fingerprint",
    "encryption_key_id",
    "occurred_at",
    "quarantined_at",
    "redelivered",
)
_PAYLOAD: Final = "payload_encrypted"
_ENVELOPE: Final = "envelope_encrypted"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def sealed_record(
    keys: WrappedKeys, record: Mapping[str, Any], raw: RawRecord, subjects: frozenset[str]
) -> dict[str, Any]:
    """Return a `Quarantine` record with the raw record sealed in it.

    `record` has all fields but the sealed ones and the ids of the keys; `subjects` are the data
    subjects that the event names.

    Raises:
        HomeUnavailable: a key cannot be read or made.
    """
    key_ids = payload_key_ids(keys, record["tenant_id"], subjects)
    named = {**record, "encryption_key_id": key_ids}
    cipher = AESGCM(content_key(keys, key_ids))
    sealed: dict[str, Any] = {}
    for part, content in ((_PAYLOAD, raw.value), (_ENVELOPE, _envelope(raw))):
        nonce = os.urandom(NONCE_BYTES)
        sealed[part] = nonce + cipher.encrypt(nonce, content, _bound(part, named))
    return named | sealed


def open_raw(keys: WrappedKeys, record: Mapping[str, Any]) -> RawRecord:
    """Return the raw record that a `Quarantine` record holds, as it was read at its place.

    A record of version 1 has no envelope: of its headers only the mark of a redelivery is known.

    Raises:
        SecretsError, HomeUnavailable: see `unseal`.
    """
    value = unseal(keys, record)
    if record[_ENVELOPE] is None:
        headers = [(REDELIVERY, b"1")] if record["redelivered"] else []
        return unopened_raw(record, value=value, headers=headers)
    envelope = json.loads(_opened(keys, record, _ENVELOPE))
    return unopened_raw(
        record,
        # An envelope of an earlier version has no key, and a signature that is refused.
        key=bytes.fromhex(envelope.get("key", "")),
        value=value,
        headers=[(name, bytes.fromhex(text)) for name, text in envelope["headers"].items()],
        appended=envelope["appended"],
    )


def unopened_raw(record: Mapping[str, Any], **opened: Any) -> RawRecord:
    """Return the raw record at its place, with only as much of its content as is given."""
    return RawRecord(
        **{"key": b"", "value": b"", "headers": [], **opened},
        topic=record["source_topic"],
        partition=record["source_partition"],
        offset=record["source_offset"],
        timestamp=record["occurred_at"],
    )


def unseal(keys: WrappedKeys, record: Mapping[str, Any]) -> bytes:
    """Return the payload of a `Quarantine` record.

    Raises:
        KeyDestroyed: one of its keys was destroyed, or it is from another home.
        SecretsError: it was altered, or its payload was not kept.
        HomeUnavailable: the keys cannot be read.
    """
    if not record[_PAYLOAD]:
        raise SecretsError(
            f"the payload of {_place(record)} was not kept; the record's detail says why"
        )
    return _opened(keys, record, _PAYLOAD)


def _opened(keys: WrappedKeys, record: Mapping[str, Any], part: str) -> bytes:
    sealed, key_ids = record[part], record["encryption_key_id"]
    earlier = keys.masters.of_earlier_form(key_ids)
    if earlier is None:
        key, bound = content_key(keys, key_ids), _bound(part, record)
    else:
        key = earlier.derived(f"atdp quarantine v1|{record['tenant_id']}")
        bound = (_place(record) + ("#envelope" if part == _ENVELOPE else "")).encode()
    try:
        return AESGCM(key).decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], bound)
    except (InvalidTag, ValueError) as error:
        raise SecretsError(
            "the sealed payload, or the reason or place beside it, was altered"
        ) from error


def _envelope(raw: RawRecord) -> bytes:
    """Return the key and the headers of a raw record that are kept, and who stamped its time."""
    found = ((name, header(raw.headers, name)) for name in _KEPT_HEADERS)
    headers = {
        name: value.hex() for name, value in found if value and len(value) <= _MAX_HEADER_BYTES
    }
    key = raw.key.hex() if len(raw.key) <= _MAX_KEY_BYTES else ""
    return json.dumps({"key": key, "headers": headers, "appended": raw.appended}).encode()


def _bound(part: str, record: Mapping[str, Any]) -> bytes:
    """Return the associated data of a sealed part."""
    values = (record[name] for name in _BOUND_FIELDS)
    return json.dumps([_FORM, part, *map(_plain, values)]).encode()


def _plain(value: object) -> object:
    return (value - _EPOCH) // timedelta(microseconds=1) if isinstance(value, datetime) else value


def _place(record: Mapping[str, Any]) -> str:
    return f"{record['source_topic']}/{record['source_partition']}/{record['source_offset']}"
