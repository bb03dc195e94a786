"""The signature of a record: Ed25519 under a key that follows from the API key's secret.

A producer never puts its API key on the wire. It signs, and who checks needs the public half alone,
which is what the key store holds: a copied store can neither sign nor authenticate.

The signature covers all that decides what a record means: the topic that it is for, the id of the
key, the Kafka key, the mark of a redelivery and the value. Each part has its length before it, so
no two records have the same signed bytes. A record that is copied under another key or to another
topic, or whose mark is changed, has no valid signature.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from atdp.schemas.errors import SchemaError
from atdp.schemas.headers import KEY_ID, REDELIVERY, SIGNATURE, header

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_PREFIX: Final = "atdp"
_SEED_DOMAIN: Final = b"atdp/api-key/ed25519/1\0"
_RECORD_DOMAIN: Final = b"atdp/record/ed25519/1"
_REDELIVERED: Final = b"1"
_CACHED_KEYS: Final = 1_000
"""Keys whose derivation, some 40 µs, is not repeated."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SigningKey:
    """The key with which the holder of an API key signs records."""

    key_id: str
    seed: bytes = field(repr=False)
    """32 bytes, the private key of Ed25519."""

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
        seed = hashlib.sha256(_SEED_DOMAIN + secret.encode()).digest()
        return cls(key_id=key_id, seed=seed)

    @property
    def public_key(self) -> bytes:
        """The public half, 32 bytes."""
        return _public_key(self.seed)

    def sign(self, message: bytes) -> bytes:
        """Return the signature of a message, 64 bytes."""
        return _private_key(self.seed).sign(message)


def signed_headers(
    key: SigningKey, topic: str, record_key: bytes, value: bytes, *, redelivery: bool = False
) -> list[tuple[str, bytes]]:
    """Return the headers of a record for `topic` under the Kafka key `record_key`."""
    mark = _REDELIVERED if redelivery else b""
    key_id = key.key_id.encode()
    signature = key.sign(_signed_bytes(topic, key_id, record_key, mark, value))
    signed = [(KEY_ID, key_id), (SIGNATURE, signature)]
    return [*signed, (REDELIVERY, mark)] if redelivery else signed


def verify_record(
    public_key: bytes,
    topic: str,
    record_key: bytes,
    value: bytes,
    headers: Sequence[tuple[str, bytes]] | None,
) -> bool:
    """Return whether `headers` hold the key's signature of the record that was read from `topic`.

    The key id is the one that the headers name: the caller looks the public key up by it.
    """
    # Importing it takes 30 ms, which a program that only records does not pay.
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    key_id, signature = header(headers, KEY_ID), header(headers, SIGNATURE)
    if key_id is None or signature is None:
        return False
    mark = header(headers, REDELIVERY) or b""
    message = _signed_bytes(topic, key_id, record_key, mark, value)
    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, message)
    except InvalidSignature:
        return False
    return True


def _signed_bytes(topic: str, *parts: bytes) -> bytes:
    fields = (_RECORD_DOMAIN, topic.encode(), *parts)
    return b"".join(piece for each in fields for piece in (len(each).to_bytes(8, "big"), each))


@lru_cache(maxsize=_CACHED_KEYS)
def _private_key(seed: bytes) -> "Ed25519PrivateKey":
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.from_private_bytes(seed)


@lru_cache(maxsize=_CACHED_KEYS)
def _public_key(seed: bytes) -> bytes:
    return _private_key(seed).public_key().public_bytes_raw()
