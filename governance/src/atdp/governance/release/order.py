"""Orders about quarantined records, and their signed form on the wire.

An order is signed with a key of the home (HMAC-SHA256), because it names the person who gave it and
can discard a record: whoever can merely write to the topic must not do that.
"""

import hashlib
import hmac
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, Literal, Self, TypeAlias

from atdp.governance.errors import GovernanceError
from atdp.governance.master_secret import MasterSecret
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

    def headers(self, secret: MasterSecret) -> list[tuple[str, bytes]]:
        """Return the headers of its record: the signature."""
        return [(_SIGNATURE, _signature(secret, self.encode()))]


def read_order(
    value: bytes, headers: Sequence[tuple[str, bytes]] | None, secret: MasterSecret
) -> QuarantineOrder | None:
    """Return the order of a record; None if it is none that this home has signed."""
    signature = header(headers, _SIGNATURE)
    if signature is None or not hmac.compare_digest(signature, _signature(secret, value)):
        return None
    try:
        name, record = decode_record(value)
    except SchemaError:
        return None
    return QuarantineOrder(**record) if name == _SCHEMA else None


def _signature(secret: MasterSecret, value: bytes) -> bytes:
    return hmac.digest(secret.order_key, value, hashlib.sha256)
