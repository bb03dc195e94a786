"""Orders about quarantined records, and their signed form on the wire.

An order is signed with a key of the home (HMAC-SHA256), because it names the person who gave it and
can discard a record: whoever can merely write to the topic must not do that. After a rotation of
the master key there is a new key of orders, and an order that was signed with an earlier one is not
carried out. Governance's own notes are believed under every key, because a record must leave
quarantine once only.
"""

import hashlib
import hmac
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, Literal, Self, TypeAlias

from atdp.governance.errors import GovernanceError
from atdp.governance.home_secrets import ORDER_KEYS
from atdp.governance.wrapped_keys import DataKey, WrappedKeys
from atdp.schemas import SchemaError, decode_record, encode_record, header, topic

OrderAction: TypeAlias = Literal["release", "discard", "done", "unknown"]
"""`done` is written by governance: the record has left quarantine, whatever order comes later."""

_SIGNATURE: Final = "atdp-order-signature"
_SCHEMA: Final = "quarantine_order"
_PLACE: Final = re.compile(
    r"(?:(?P<topic>[^/]+)/)?(?P<partition>[0-9]{1,9})/(?P<offset>[0-9]{1,18})"
)


class BadPlace(GovernanceError):
    """A text does not name the place of a quarantined record."""


@dataclass(frozen=True, slots=True, order=True)
class QuarantinePlace:
    """The place of a record in the quarantine topic."""

    partition: int
    offset: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the place in `topic/partition/offset`; the topic may be left out.

        Raises:
            BadPlace: it is none.
        """
        found, known = _PLACE.fullmatch(text), topic("events_quarantine").name
        if found is None or found["topic"] not in (None, known):
            raise BadPlace(
                f"{text!r} is not the place of a quarantined record; "
                f"write {known}/PARTITION/OFFSET, as `atdp quarantine list` shows it"
            )
        return cls(int(found["partition"]), int(found["offset"]))

    def __str__(self) -> str:
        """Return the form that `parse` reads."""
        return f"{topic('events_quarantine').name}/{self.partition}/{self.offset}"


@dataclass(frozen=True, kw_only=True, slots=True)
class QuarantineOrder:
    """An order about one quarantined record, or the note that it is done with."""

    order_id: str
    action: OrderAction
    tenant_id: str
    """Tenant of the quarantined record, or `unknown`."""
    quarantine_partition: int
    quarantine_offset: int
    source_topic: str
    source_partition: int
    """Partition from which the raw record was read, and to which the order is written."""
    source_offset: int
    actor: str
    """Principal who gave the order: `key:ID` or `oidc:ISSUER#SUBJECT`."""
    reason: str
    ordered_at: datetime

    @property
    def place(self) -> QuarantinePlace:
        """The place of the record that it is about."""
        return QuarantinePlace(self.quarantine_partition, self.quarantine_offset)

    @property
    def log_key(self) -> bytes:
        """The key of its record in the topic."""
        return str(self.place).encode()

    def done(self, now: datetime) -> "QuarantineOrder":
        """Return the note that the order is carried out and its record has left quarantine."""
        return replace(self, action="done", ordered_at=now)

    def encode(self) -> bytes:
        """Return the record of the order.

        Raises:
            SchemaError: a field does not fit.
        """
        return encode_record(_SCHEMA, {name: getattr(self, name) for name in self.__slots__})

    def headers(self, keys: WrappedKeys) -> list[tuple[str, bytes]]:
        """Return the headers of its record: the signature.

        Raises:
            HomeUnavailable: the key of orders cannot be read or made.
        """
        (key,) = keys.current([ORDER_KEYS])
        return [(_SIGNATURE, _signature(key, self.encode()))]


def read_order(
    value: bytes, headers: Sequence[tuple[str, bytes]] | None, keys: WrappedKeys
) -> QuarantineOrder | None:
    """Return the order of a record; None if it is none that this home has signed.

    Raises:
        HomeUnavailable: the keys of orders cannot be read.
    """
    signature = header(headers, _SIGNATURE)
    signer = None if signature is None else _signer(value, signature, keys)
    if signer is None:
        return None
    try:
        name, record = decode_record(value)
    except SchemaError:
        return None
    if name != _SCHEMA:
        return None
    is_valid = record["action"] == "done" or signer.made_under == keys.masters.current.key_id
    return QuarantineOrder(**record) if is_valid else None


def _signer(value: bytes, signature: bytes, keys: WrappedKeys) -> DataKey | None:
    # Not from the cache: the command line may have signed with a key that was just made.
    return next(
        (
            key
            for key in keys.all_of(ORDER_KEYS)
            if hmac.compare_digest(signature, _signature(key, value))
        ),
        None,
    )


def _signature(key: DataKey, value: bytes) -> bytes:
    return hmac.digest(key.secret, value, hashlib.sha256)
