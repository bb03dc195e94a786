"""A key as the store returns it."""

from dataclasses import dataclass

from atdp.runtime.keys.principals import Principal


@dataclass(frozen=True, slots=True)
class StoredKey:
    """A key as the store holds it.

    `verifier` is the HMAC key (32 bytes). `revoked` is also true when a key above it was revoked;
    `revoked_at_us` is the earliest of these times (microseconds since the epoch).
    """

    principal: Principal
    verifier: bytes
    created_at_us: int
    revoked: bool
    revoked_at_us: int | None = None

    def __repr__(self) -> str:
        return f"StoredKey({self.principal!r}, revoked={self.revoked})"
