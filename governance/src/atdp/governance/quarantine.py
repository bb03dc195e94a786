"""The quarantine: what the gate refused, sealed.

A quarantined record says where it was read, why it was refused, and holds the payload under
AES-256-GCM with the pointer as associated data: a ciphertext moved to another record does not open.
The nonce is random (96 bits; at the 2^32 records of one tenant key that NIST SP 800-38D allows, far
more than a quarantine should ever hold).
"""

import os
from collections.abc import Mapping
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from atdp.governance.errors import SecretsError
from atdp.governance.master_secret import MasterSecret

_NONCE_BYTES = 12


def pointer(topic: str, partition: int, offset: int) -> bytes:
    """The associated data of a sealed payload."""
    return f"{topic}/{partition}/{offset}".encode()


def seal(secret: MasterSecret, tenant: str, payload: bytes, where: bytes) -> bytes:
    """Nonce and ciphertext."""
    nonce = os.urandom(_NONCE_BYTES)
    return nonce + AESGCM(secret.quarantine_key(tenant)).encrypt(nonce, payload, where)


def unseal(secret: MasterSecret, record: Mapping[str, Any]) -> bytes:
    """The payload of a `Quarantine` record.

    Raises:
        SecretsError: another home's record, one that was altered, or one whose payload was too
            large to keep.
    """
    if record["encryption_key_id"] != secret.key_id:
        raise SecretsError(
            f"sealed with the key {record['encryption_key_id']}, not with this home's {secret.key_id}"
        )
    where = pointer(record["source_topic"], record["source_partition"], record["source_offset"])
    sealed = record["payload_encrypted"]
    if not sealed:
        raise SecretsError(
            f"the payload of {where.decode()} was too large to keep; its hash and size are in the record's detail"
        )
    try:
        return AESGCM(secret.quarantine_key(record["tenant_id"])).decrypt(
            sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], where
        )
    except InvalidTag as error:
        raise SecretsError("the sealed payload or its pointer was altered") from error
