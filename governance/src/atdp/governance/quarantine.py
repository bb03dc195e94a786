"""The encryption of quarantined records.

A quarantine record names the place where the raw record was read and the reason for the refusal.
It holds the payload under AES-256-GCM with that place as associated data, so a ciphertext that is
moved to another record cannot be opened. Beside it, sealed in the same way, is the *envelope*: the
headers that show who sent the record, so that a released record is authenticated as it was at
first. A sender may write anything into a header, so they are sealed too. The nonce is random (96
bits). NIST SP 800-38D allows 2^32 records under one key this way; a tenant's quarantine holds far
fewer.
"""

import json
import os
from collections.abc import Mapping
from typing import Any, Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from atdp.governance.decisions import RawRecord
from atdp.governance.errors import SecretsError
from atdp.governance.master_secret import MasterSecret
from atdp.schemas import KEY_ID, REDELIVERY, SIGNATURE, header

_NONCE_BYTES: Final = 12
_KEPT_HEADERS: Final = (KEY_ID, SIGNATURE, REDELIVERY)
_MAX_HEADER_BYTES: Final = 256
"""Longest header that is kept. A valid one has at most 64 bytes; a record with a longer one was
refused for it, and is refused again."""
_ENVELOPE: Final = b"#envelope"


def record_place(topic: str, partition: int, offset: int) -> bytes:
    """Return the associated data of a sealed payload: the place of the raw record."""
    return f"{topic}/{partition}/{offset}".encode()


def seal_envelope(secret: MasterSecret, tenant: str, raw: RawRecord) -> bytes:
    """Return the sealed headers of a raw record, and who stamped its time."""
    found = ((name, header(raw.headers, name)) for name in _KEPT_HEADERS)
    headers = {
        name: value.hex() for name, value in found if value and len(value) <= _MAX_HEADER_BYTES
    }
    envelope = json.dumps({"headers": headers, "appended": raw.appended}).encode()
    place = record_place(raw.topic, raw.partition, raw.offset)
    return seal(secret, tenant, envelope, place + _ENVELOPE)


def seal(secret: MasterSecret, tenant: str, payload: bytes, place: bytes) -> bytes:
    """Return the nonce followed by the ciphertext."""
    nonce = os.urandom(_NONCE_BYTES)
    return nonce + AESGCM(secret.quarantine_key(tenant)).encrypt(nonce, payload, place)


def open_raw(secret: MasterSecret, record: Mapping[str, Any]) -> RawRecord:
    """Return the raw record that a `Quarantine` record holds, as it was read at its place.

    A record of version 1 has no envelope: of its headers only the mark of a redelivery is known.

    Raises:
        SecretsError: see `unseal`.
    """
    value = unseal(secret, record)
    if record["envelope_encrypted"] is None:
        headers = [(REDELIVERY, b"1")] if record["redelivered"] else []
        return unopened_raw(record, value=value, headers=headers)
    place = _place_of(record) + _ENVELOPE
    envelope = json.loads(_opened(secret, record, record["envelope_encrypted"], place))
    return unopened_raw(
        record,
        value=value,
        headers=[(name, bytes.fromhex(text)) for name, text in envelope["headers"].items()],
        appended=envelope["appended"],
    )


def unopened_raw(record: Mapping[str, Any], **opened: Any) -> RawRecord:
    """Return the raw record at its place, with only as much of its content as is given."""
    return RawRecord(
        **{"value": b"", "headers": [], **opened},
        topic=record["source_topic"],
        partition=record["source_partition"],
        offset=record["source_offset"],
        timestamp=record["occurred_at"],
    )


def unseal(secret: MasterSecret, record: Mapping[str, Any]) -> bytes:
    """Return the payload of a `Quarantine` record.

    Raises:
        SecretsError: the record is from another home, was altered, or its payload was not kept.
    """
    if record["encryption_key_id"] != secret.key_id:
        raise SecretsError(
            f"the payload is sealed with the key {record['encryption_key_id']}, "
            f"but this home's key is {secret.key_id}"
        )
    place = _place_of(record)
    sealed = record["payload_encrypted"]
    if not sealed:
        raise SecretsError(
            f"the payload of {place.decode()} was not kept; the record's detail says why"
        )
    return _opened(secret, record, sealed, place)


def _place_of(record: Mapping[str, Any]) -> bytes:
    return record_place(record["source_topic"], record["source_partition"], record["source_offset"])


def _opened(secret: MasterSecret, record: Mapping[str, Any], sealed: bytes, place: bytes) -> bytes:
    try:
        return AESGCM(secret.quarantine_key(record["tenant_id"])).decrypt(
            sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], place
        )
    except InvalidTag as error:
        raise SecretsError("the sealed payload or the place that it names was altered") from error
