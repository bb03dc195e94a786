"""Record headers: who sent a record, and whether it may have been sent before.

A producer never puts its API key on the wire. It signs the value: HMAC-SHA256 under the key's
*verifier* (SHA-256 of the secret), which is what the key store holds. The gate recomputes the
signature, so a record that reached the log by any path is tied to a tenant.
"""

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass

from atdp.schemas.errors import SchemaError

KEY_ID = "atdp-key-id"
SIGNATURE = "atdp-signature"
REDELIVERY = "atdp-redelivery"
"""`b"1"` when the producer may have sent this event before; only such events are looked up before
they land."""

_PREFIX = "atdp"


@dataclass(frozen=True, kw_only=True, slots=True)
class SigningKey:
    """An API key's id and verifier (32 bytes): all that signing and checking need."""

    key_id: str
    verifier: bytes

    @classmethod
    def parse(cls, api_key: str) -> "SigningKey":
        """From the text `atdp_<key id>_<secret>`.

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
        """Signature of a record's value, lower-case hex."""
        return hmac.digest(self.verifier, value, "sha256").hex().encode()


def verify(key: SigningKey, value: bytes, signature: bytes) -> bool:
    """Whether `signature` is the key's signature of `value`; constant time."""
    return hmac.compare_digest(key.sign(value), signature)


def signed_headers(
    key: SigningKey, value: bytes, *, redelivery: bool = False
) -> list[tuple[str, bytes]]:
    """The headers of a raw record."""
    signed = [(KEY_ID, key.key_id.encode()), (SIGNATURE, key.sign(value))]
    return [*signed, (REDELIVERY, b"1")] if redelivery else signed


def header(found: Sequence[tuple[str, bytes]] | None, name: str) -> bytes | None:
    """The last value of a header, or `None`."""
    value = None
    for key, item in found or ():
        if key == name:
            value = item
    return value
