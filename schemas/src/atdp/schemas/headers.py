"""Record headers: the key that signed a record, and the mark of a redelivery.

A producer never puts its API key on the wire. It signs the value: HMAC-SHA256 under the key's
*verifier* (SHA-256 of the secret), which is what the key store holds. Governance recomputes the
signature, so every record in the log is tied to a tenant, whatever path it took.
"""

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass

from atdp.schemas.errors import SchemaError

KEY_ID = "atdp-key-id"
SIGNATURE = "atdp-signature"
REDELIVERY = "atdp-redelivery"
"""`b"1"` when the producer may have sent this event before. It is information for the audit; the
lake looks up every event by its id, with and without this header."""
REGOVERNED = "atdp-regoverned"
"""On a governed record that replaces the earlier one of the same event id: the number of learned
values with which it was governed again, in decimal digits."""

_PREFIX = "atdp"


@dataclass(frozen=True, kw_only=True, slots=True)
class SigningKey:
    """An API key's id and verifier (32 bytes), which are enough to sign and to check."""

    key_id: str
    verifier: bytes

    @classmethod
    def parse(cls, api_key: str) -> "SigningKey":
        """Return the signing key of the API key `atdp_<key id>_<secret>`.

        Raises:
            SchemaError: the text does not look like an API key.
        """
        prefix, _, rest = api_key.partition("_")
        key_id, _, secret = rest.partition("_")
        if prefix != _PREFIX or not key_id or not secret:
            raise SchemaError(
                "not an atdp API key (atdp_<id>_<secret>); make one with: atdp keys create"
            )
        return cls(key_id=key_id, verifier=hashlib.sha256(secret.encode()).digest())

    def sign(self, value: bytes) -> bytes:
        """Return the signature of a record's value, in lower-case hex."""
        return hmac.digest(self.verifier, value, "sha256").hex().encode()


def verify(key: SigningKey, value: bytes, signature: bytes) -> bool:
    """Return whether `signature` is the key's signature of `value`, in constant time."""
    return hmac.compare_digest(key.sign(value), signature)


def signed_headers(
    key: SigningKey, value: bytes, *, redelivery: bool = False
) -> list[tuple[str, bytes]]:
    """Return the headers of a raw record."""
    signed = [(KEY_ID, key.key_id.encode()), (SIGNATURE, key.sign(value))]
    return [*signed, (REDELIVERY, b"1")] if redelivery else signed


def header(headers: Sequence[tuple[str, bytes]] | None, name: str) -> bytes | None:
    """Return the last value of the header `name`, or None when it is absent."""
    value = None
    for key, item in headers or ():
        if key == name:
            value = item
    return value
