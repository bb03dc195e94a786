"""Entries of the register, and their signed form on the wire.

An entry is signed with the secret that the services of a home share (HMAC-SHA256 over the record),
so that nobody who can merely write to the topic can activate a policy or grant consent.
"""

import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, Self

from atdp.schemas import SchemaError, decode_record, encode_record

SIGNATURE: Final = "atdp-register-signature"
"""Header with the signature of an entry."""
_SCHEMA: Final = "register_entry"


@dataclass(frozen=True, kw_only=True, slots=True)
class RegisterEntry:
    """One decision of a person about data.

    `kind` and `key` say what it is about: a later entry of the same kind and key replaces an
    earlier one. `body` is a JSON object. `actor` is the principal who decided: `key:<key_id>` or
    `oidc:<issuer>#<subject>`. `offset` is the position in the log, -1 before the entry is written.
    """

    kind: str
    key: str
    body: Mapping[str, Any]
    actor: str
    recorded_at: datetime
    offset: int = -1

    @property
    def log_key(self) -> bytes:
        """The key by which the topic is compacted."""
        return f"{self.kind}|{self.key}".encode()

    def encode(self) -> bytes:
        """Return the record of the entry.

        Raises:
            SchemaError: it does not fit the schema.
        """
        return encode_record(
            _SCHEMA,
            {
                "kind": self.kind,
                "key": self.key,
                "body_json": json.dumps(self.body, sort_keys=True, separators=(",", ":")),
                "actor": self.actor,
                "recorded_at": self.recorded_at,
            },
        )

    @classmethod
    def decode(cls, value: bytes, *, offset: int) -> Self | None:
        """Return the entry of a record; None when the record is no readable entry."""
        try:
            name, record = decode_record(value)
            if name != _SCHEMA:
                return None
            body = json.loads(record.pop("body_json"))
        except (SchemaError, ValueError):
            return None
        return cls(**record, body=body, offset=offset) if isinstance(body, dict) else None

    def at(self, offset: int) -> "RegisterEntry":
        """Return the entry with its position in the log."""
        return replace(self, offset=offset)


def sign(secret: bytes, log_key: bytes, value: bytes) -> bytes:
    """Return the signature of a record under its key."""
    return hmac.digest(secret, len(log_key).to_bytes(4, "big") + log_key + value, hashlib.sha256)


def is_signed(secret: bytes, log_key: bytes, value: bytes, signature: bytes | None) -> bool:
    """Return whether `signature` is that of the record under its key."""
    return signature is not None and hmac.compare_digest(sign(secret, log_key, value), signature)
