"""Who sent a raw record.

Asked again here, because the log can be written by paths that pass no gateway.

A key that was revoked speaks no more; but what it had said before was acknowledged, and the gate
may read it later. So a record counts as sent before the revocation when the *broker* stamped it
earlier (`message.timestamp.type=LogAppendTime`); a producer's own stamp proves nothing, and such
records are refused.
"""

import sqlite3
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

from atdp.governance.errors import HomeUnavailable, Refusal
from atdp.runtime import PlatformError, Principal, StoredKey, tenant_problem
from atdp.schemas import KEY_ID, SIGNATURE, SigningKey, header, verify

_EPOCH = datetime.fromtimestamp(0, UTC)

KeyLookup = Callable[[str], StoredKey | None]


def authenticate(
    value: bytes,
    headers: Sequence[tuple[str, bytes]] | None,
    keys: KeyLookup,
    *,
    appended_at: datetime | None = None,
) -> Principal:
    """The principal whose key signed `value`.

    `appended_at`: when the broker took the record, `None` when only its producer says so.

    Raises:
        Refusal: no signature, a wrong one, an unknown key, one revoked before it sent this, or a
            role that may not emit.
        HomeUnavailable: the key store cannot be read.
    """
    key_id, signature = header(headers, KEY_ID), header(headers, SIGNATURE)
    if key_id is None or signature is None:
        raise Refusal("unsigned", f"the record has no {KEY_ID} or {SIGNATURE} header")
    stored = look_up(keys, key_id.decode("ascii")) if key_id.isascii() else None
    if stored is None:
        raise Refusal("unknown_key", "the record names an API key that this home does not know")
    if stored.revoked and not _sent_before(stored, appended_at):
        raise Refusal("revoked_key", f"the API key {stored.principal.key_id} was revoked")
    signing = SigningKey(key_id=stored.principal.key_id, verifier=stored.verifier)
    if not verify(signing, value, signature):
        raise Refusal(
            "bad_signature", "the signature is not that of the named API key over this record"
        )
    if not stored.principal.may("emit"):
        raise Refusal("role_may_not_emit", f"the role {stored.principal.role} may not emit events")
    return stored.principal


def look_up(keys: KeyLookup, key_id: str) -> StoredKey | None:
    """The stored key of an id.

    Raises:
        HomeUnavailable: the key store cannot be read.
    """
    try:
        return keys(key_id)
    except (sqlite3.Error, OSError, PlatformError) as error:
        raise HomeUnavailable(
            f"the key store cannot be read: {type(error).__name__}: {error}"
        ) from error


def _sent_before(stored: StoredKey, appended_at: datetime | None) -> bool:
    if stored.revoked_at_us is None or appended_at is None:
        return False
    return appended_at < _EPOCH + timedelta(microseconds=stored.revoked_at_us)


def check_tenant(principal: Principal, tenant: str) -> None:
    """Raise `Refusal` unless the principal may emit for `tenant`, and a tenant can have that name."""
    if tenant_problem(tenant) is not None:
        raise Refusal(
            "bad_tenant", "no tenant can have the name in tenant_id; see `atdp keys create`"
        )
    if not principal.may_act_for(tenant):
        raise Refusal("tenant_mismatch", "the event names a tenant other than its producer's")
