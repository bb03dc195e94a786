"""A key as the store returns it."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from atdp.runtime.keys.principals import Principal

KeyEnd: TypeAlias = Literal["revoked", "expired", "outdated"]


@dataclass(frozen=True, slots=True)
class StoredKey:
    """A key as the store holds it. Times are microseconds since the epoch.

    `revoked_at_us` and `expires_at_us` are the earliest of the key and those above it; None when
    none was revoked, or has an expiry.
    """

    principal: Principal
    public_key: bytes | None
    """32 bytes of Ed25519. None for a key of an earlier version of atdp, which nothing can use."""
    created_at_us: int
    revoked_at_us: int | None = None
    expires_at_us: int | None = None
    last_used_at_us: int | None = None
    """To the hour; None when no use is known."""

    @property
    def revoked(self) -> bool:
        """True when the key or one above it was revoked."""
        return self.revoked_at_us is not None

    def end(self, now_us: int) -> KeyEnd | None:
        """Return why the key is of no use now; None when it is valid."""
        if self.revoked:
            return "revoked"
        if self.expires_at_us is not None and self.expires_at_us <= now_us:
            return "expired"
        return "outdated" if self.public_key is None else None

    def valid_at(self, time_us: int) -> bool:
        """Return whether the key was neither revoked nor expired at that time."""
        ends = (self.revoked_at_us, self.expires_at_us)
        return all(end is None or time_us < end for end in ends)
