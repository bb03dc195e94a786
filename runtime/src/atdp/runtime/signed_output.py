"""Signatures of the records that the platform writes: governed events, audit, decisions and others.

Whoever can write to a topic must not be able to make a record of the platform. So its writer signs
each record (HMAC-SHA256), and every reader checks it before use. The signature covers the name of
the topic, the Kafka key, the value, and all headers of the platform, among them the source position
of a governed event. A record that is changed, or copied to another topic, has no valid signature. A
verbatim copy has one; readers recognise it by the id in its value.

The key is derived from the secret that the services of a home share, one for each part that owns
topics, so that the key of one part signs nothing for another.

An HMAC proves nothing to a third person, because who can check a record can also make one. Readers
are services of the platform, and the rules of the broker decide which of them may write (see
`docs/decisions/0032`).
"""

import hashlib
import hmac
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, Self, TypeAlias

from atdp.runtime.home import Home
from atdp.runtime.kafka_headers import record_headers
from atdp.runtime.secret_keys import read_secret_key
from atdp.schemas import TopicRole, header, topic

if TYPE_CHECKING:
    from confluent_kafka import Message

OUTPUT_SIGNATURE: Final = "atdp-output-signature"
"""Header with the signature of a record that the platform wrote."""
OUTPUT_POSITION: Final = "atdp-output-position"
"""Header with the place of the raw record that a governed event is from:
`<topic>/<partition>/<offset>`."""

SignatureProblem: TypeAlias = Literal["unsigned", "wrong_signature"]
"""`wrong_signature`: the record was changed or copied from elsewhere, or was signed with the secret
of another home."""

Headers: TypeAlias = Sequence[tuple[str, bytes]]

_OWN_HEADERS: Final = "atdp-"
_KEY_DOMAIN: Final = b"atdp output key v1|"
_RECORD_DOMAIN: Final = b"atdp output v1|"
_BLOCK_BYTES: Final = hashlib.sha256().block_size
_LENGTHS: Final = struct.Struct(">II")


@dataclass(frozen=True, kw_only=True, slots=True)
class RefusedRecord:
    """The place of a record without a valid signature."""

    topic: str
    partition: int
    offset: int
    reason: SignatureProblem


class SignedTopic:
    """Signs the records of one topic, and checks them."""

    def __init__(self, secret: bytes, role: TopicRole, name: str | None = None) -> None:
        """`secret` is what the services share; `name` is the topic's name on this cluster."""
        self.name = topic(role).name if name is None else name
        owner = topic(role).owner.encode()
        key = hmac.digest(secret, _KEY_DOMAIN + owner, "sha256")
        # HMAC as RFC 2104 defines it, with both hashes begun: `hmac` would begin them anew for each
        # record, which takes as long as the rest of a check.
        self._inner, self._outer = (
            hashlib.sha256(bytes(byte ^ pad for byte in key.ljust(_BLOCK_BYTES, b"\0")))
            for pad in (0x36, 0x5C)
        )
        self._inner.update(b"".join(_sized(_RECORD_DOMAIN, self.name.encode())))

    @classmethod
    def of_home(cls, home: Home, role: TopicRole, name: str | None = None) -> Self:
        """Return the signatures of a topic under the secret of a home.

        Raises:
            SecretKeyError: the secret is missing, damaged, or readable by other users.
        """
        return cls(load_output_secret(home), role, name)

    def signed(
        self, key: bytes | None, value: bytes | None, headers: Headers = ()
    ) -> list[tuple[str, bytes]]:
        """Return the headers of a record, with its signature as the last one."""
        return [*headers, (OUTPUT_SIGNATURE, self._signature(key, value, headers))]

    def problem(
        self, key: bytes | None, value: bytes | None, headers: Headers | None
    ) -> SignatureProblem | None:
        """Return why a record must not be used; None: the owner of the topic wrote it."""
        found = header(headers, OUTPUT_SIGNATURE)
        if found is None:
            return "unsigned"
        expected = self._signature(key, value, headers or ())
        return None if hmac.compare_digest(found, expected) else "wrong_signature"

    def refusal(self, message: "Message") -> RefusedRecord | None:
        """Return what a reader notes of a record that it must not use; None: it may be used."""
        problem = self.problem(message.key(), message.value(), record_headers(message))
        if problem is None:
            return None
        partition, offset = message.partition(), message.offset()
        if partition is None or offset is None:
            raise ValueError("a record that was read has a place")
        return RefusedRecord(topic=self.name, partition=partition, offset=offset, reason=problem)

    def _signature(self, key: bytes | None, value: bytes | None, headers: Headers) -> bytes:
        parts = [*_sized(key or b"", value or b"")]
        for name, content in headers:
            if name.startswith(_OWN_HEADERS) and name != OUTPUT_SIGNATURE:
                parts += _sized(name.encode(), content or b"")
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(b"".join(parts))
        outer.update(inner.digest())
        return outer.digest()


def load_output_secret(home: Home) -> bytes:
    """Return the secret from which the keys of signatures are derived: that of the register.

    Raises:
        SecretKeyError: it is missing, damaged, or readable by other users.
    """
    return read_secret_key(
        home.register_secret_file,
        if_lost="no decision in the register holds any more, and no record of the platform",
    )


def _sized(first: bytes, second: bytes) -> tuple[bytes, bytes, bytes]:
    """Return two parts after their lengths, so that no two lists of parts give the same bytes."""
    return _LENGTHS.pack(len(first), len(second)), first, second
