"""Authentication of raw records.

The gateway has checked the sender already, and what the sender's key is for. The checks are
repeated here, because other writers can reach the raw topic without the gateway.

Records signed with a revoked key are refused. A record that was accepted before the revocation may
still wait in the topic and must pass. So a record counts as sent before the revocation when the
*broker* stamped it earlier (`message.timestamp.type=LogAppendTime`). A producer's own timestamp
proves nothing, and such records are refused.
"""

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeAlias

from atdp.governance.errors import HomeUnavailable, Refusal
from atdp.governance.judgements import holds_judgement
from atdp.runtime import PlatformError, Principal, StoredKey, tenant_problem
from atdp.schemas import KEY_ID, SIGNATURE, SigningKey, header, verify

KeyLookup: TypeAlias = Callable[[str], StoredKey | None]

_EPOCH: Final = datetime.fromtimestamp(0, UTC)


def authenticate(
    value: bytes,
    headers: Sequence[tuple[str, bytes]] | None,
    keys: KeyLookup,
    *,
    appended_at: datetime | None = None,
) -> Principal:
    """Return the principal whose key signed `value`.

    `appended_at` is the broker's timestamp of the record, or None when only its producer gave one.

    Raises:
        Refusal: the signature is missing or wrong, the key is unknown or was revoked before the
            record was sent, or the role may send no events.
        HomeUnavailable: the key store cannot be read.
    """
    key_id, signature = header(headers, KEY_ID), header(headers, SIGNATURE)
    if key_id is None or signature is None:
        raise Refusal("unsigned", f"the record has no {KEY_ID} or {SIGNATURE} header")
    stored = stored_key(keys, key_id.decode("ascii")) if key_id.isascii() else None
    if stored is None:
        raise Refusal("unknown_key", "the record names an API key that this home does not know")
    if stored.revoked and not _sent_before_revocation(stored, appended_at):
        raise Refusal("revoked_key", f"the API key {stored.principal.key_id} was revoked")
    signing = SigningKey(key_id=stored.principal.key_id, verifier=stored.verifier)
    if not verify(signing, value, signature):
        raise Refusal(
            "bad_signature", "the signature is not that of the named API key over this record"
        )
    if not (stored.principal.may("emit") or stored.principal.may("reward")):
        raise Refusal("role_may_not_emit", f"the role {stored.principal.role} may not emit events")
    return stored.principal


def stored_key(keys: KeyLookup, key_id: str) -> StoredKey | None:
    """Return the stored key with this id, or None when there is none.

    Raises:
        HomeUnavailable: the key store cannot be read.
    """
    try:
        return keys(key_id)
    except (sqlite3.Error, OSError, PlatformError) as error:
        raise HomeUnavailable(
            f"the key store cannot be read: {type(error).__name__}: {error}"
        ) from error


def check_tenant(principal: Principal, tenant: str) -> None:
    """Check that `tenant` is a valid name and that the principal may emit for it.

    Raises:
        Refusal: it is not, or the principal may not.
    """
    if tenant_problem(tenant) is not None:
        raise Refusal(
            "bad_tenant",
            "the name in tenant_id is not a valid tenant name; see `atdp keys create`",
        )
    if not principal.may_act_for(tenant):
        raise Refusal("tenant_mismatch", "the event names a tenant other than its producer's")


def check_session(principal: Principal, record: Mapping[str, Any]) -> None:
    """Check that a session key signed an event of its own session.

    Raises:
        Refusal: it did not.
    """
    bound = principal.session
    if bound is not None and not bound.contains(
        record["trajectory_id"], record["attempt"], record["session_id"]
    ):
        raise Refusal(
            "session_mismatch",
            "a session key signed the event of another session, trajectory or attempt; "
            "a key of the tenant is valid for all of them",
        )


def check_kind(principal: Principal, record: Mapping[str, Any]) -> None:
    """Check that a principal that may only judge sent a judgement.

    Raises:
        Refusal: it did not.
    """
    if not (principal.may("emit") or holds_judgement(record)):
        raise Refusal(
            "role_may_not_emit",
            f"the role {principal.role} may send rewards, feedback and verdicts of judges only",
        )


def _sent_before_revocation(stored: StoredKey, appended_at: datetime | None) -> bool:
    if stored.revoked_at_us is None or appended_at is None:
        return False
    return appended_at < _EPOCH + timedelta(microseconds=stored.revoked_at_us)
