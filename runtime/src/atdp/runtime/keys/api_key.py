"""The text of an API key: `atdp_<key_id>_<secret>`."""

import re
import secrets
from typing import Self

from atdp.schemas import SigningKey

_KEY = re.compile(r"atdp_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")


class ApiKey(str):
    """The text of a key.

    It is a string, so that clients can send it. Its `repr` hides the secret, which therefore does
    not get into a log by accident.
    """

    __slots__ = ()

    @classmethod
    def generate(cls) -> Self:
        """Return a new random key."""
        return cls(f"atdp_{secrets.token_hex(6)}_{secrets.token_urlsafe(32)}")

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Return the key in `text`, or None when it does not have the form of one."""
        return cls(text) if _KEY.fullmatch(text) else None

    @property
    def key_id(self) -> str:
        """The public part; it may be logged."""
        return self[5:17]

    @property
    def secret(self) -> str:
        """The private part."""
        return self[18:]

    @property
    def public_key(self) -> bytes:
        """The public half of the key with which its holder signs records, 32 bytes: stored."""
        return SigningKey.parse(self).public_key

    def __repr__(self) -> str:
        return f"ApiKey('atdp_{self.key_id}_…')"
