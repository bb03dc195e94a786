"""The encryption of quarantined payloads.

A quarantine record names the place where the raw record was read and the reason for the refusal.
It holds the payload under AES-256-GCM with that place as associated data, so a ciphertext that is
moved to another record cannot be opened. The nonce is random (96 bits). NIST SP 800-38D allows 2^32
records under one key this way; a tenant's quarantine holds far fewer.
"""

import os
from collections.abc import Mapping
from typing import Any, Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from atdp.governance.errors import SecretsError
from atdp.governance.master_secret import MasterSecret

_NONCE_BYTES: Final = 12


def record_place(topic: str, partition: int, offset: int) -> bytes:
    """Return the associated data of a sealed payload: the place of the raw record."""
    return f"{topic}/{partition}/{offset}".encode()


def seal(secret: MasterSecret, tenant: str, payload: bytes, place: bytes) -> bytes:
    """Return the nonce followed by the ciphertext."""
    nonce = os.urandom(_NONCE_BYTES)
    return nonce + AESGCM(secret.quarantine_key(tenant)).encrypt(nonce, payload, place)


def unseal(secret: MasterSecret, record: Mapping[str, Any]) -> bytes:
    """Return the payload of a `Quarantine` record.

    Raises:
        SecretsError: the record is from another home, was altered, or its payload was too large to
            be kept.
    """
    if record["encryption_key_id"] != secret.key_id:
        raise SecretsError(
            f"the payload is sealed with the key {record['encryption_key_id']}, "
            f"but this home's key is {secret.key_id}"
        )
    place = record_place(
        record["source_topic"], record["source_partition"], record["source_offset"]
    )
    sealed = record["payload_encrypted"]
    if not sealed:
        raise SecretsError(
            f"the payload of {place.decode()} was too large to keep; "
            "the record's detail has its hash and size"
        )
    try:
        return AESGCM(secret.quarantine_key(record["tenant_id"])).decrypt(
            sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], place
        )
    except InvalidTag as error:
        raise SecretsError("the sealed payload or the place that it names was altered") from error
