"""Authentication of raw records.

The gateway has checked the sender already, and what the sender's key is for. The checks are
repeated here, because other writers can reach the raw topic without the gateway.

A signature is checked over what was consumed: topic, Kafka key, key id, mark of a redelivery and
value. The Kafka key must be that of the event, because it decides with which partition's state the
event is governed.

Records signed with a key that was revoked or has expired are refused. A record that was accepted
before may still wait in the topic and must pass. So a record counts as sent before the key's end
when the *broker* stamped it earlier (`message.timestamp.type=LogAppendTime`). A producer's own
timestamp proves nothing, and such records are refused.
"""

import sqlite3
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeAlias

from atdp.governance.decisions import RawRecord
from atdp.governance.errors import HomeUnavailable, Refusal
from atdp.governance.judgements import holds_judgement
from atdp.runtime import PlatformError, Principal, StoredKey, tenant_problem
from atdp.schemas import KEY_ID, SIGNATURE, header, record_key, verify_record

KeyLookup: TypeAlias = Callable[[str], StoredKey | None]

_EPOCH: Final = datetime.fromtimestamp(0, UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


def authenticate(raw: RawRecord, keys: KeyLookup, now: datetime) -> Principal:
    """Return the principal whose key signed the record.

    Raises:
        Refusal: the signature is missing or wrong, the key is unknown or had ended before the
            record was sent, or the role may send no events.
        HomeUnavailable: the key store cannot be read.
    """
    key_id, signature = header(raw.headers, KEY_ID), header(raw.headers, SIGNATURE)
    if key_id is None or signature is None:
        raise Refusal("unsigned", f"the record has no {KEY_ID} or {SIGNATURE} header")
    stored = named_key(raw, keys)
    if stored is None:
        raise Refusal("unknown_key", "the record names an API key that this home does not know")
    principal = stored.principal
    if stored.public_key is None:
        raise Refusal(
            "outdated_key",
            f"the API key {principal.key_id} was made by an earlier version; "
            f"`atdp keys rotate {principal.key_id}` makes a new one",
        )
    end = stored.end(_microseconds(now))
    if end is not None and not (raw.appended and stored.valid_at(_microseconds(raw.timestamp))):
        raise Refusal(f"{end}_key", f"the API key {principal.key_id} is {end}")
    if not verify_record(stored.public_key, raw.topic, raw.key, raw.value, raw.headers):
        raise Refusal(
            "bad_signature", "the signature is not that of the named API key over this record"
        )
    if not (principal.may("emit") or principal.may("reward")):
        raise Refusal("role_may_not_emit", f"the role {principal.role} may not emit events")
    return principal


def named_key(raw: RawRecord, keys: KeyLookup) -> StoredKey | None:
    """Return the key that a record names, whether it signed the record or not; None: no such key.

    Raises:
        HomeUnavailable: the key store cannot be read.
    """
    key_id = header(raw.headers, KEY_ID) or b""
    return stored_key(keys, key_id.decode("ascii")) if key_id.isascii() else None


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


def check_sender(principal: Principal, raw: RawRecord, record: Mapping[str, Any]) -> None:
    """Check that a principal may send this event, and that the record has the event's Kafka key.

    Raises:
        Refusal: it may not, or the record has another key.
    """
    _check_tenant(principal, record["tenant_id"])
    if raw.key != record_key(record["tenant_id"], record["trajectory_id"]):
        raise Refusal(
            "key_mismatch", "the Kafka key of the record is not that of its tenant and trajectory"
        )
    _check_session(principal, record)
    if not (principal.may("emit") or holds_judgement(record)):
        raise Refusal(
            "role_may_not_emit",
            f"the role {principal.role} may send rewards, feedback and verdicts of judges only",
        )


def _check_tenant(principal: Principal, tenant: str) -> None:
    if tenant_problem(tenant) is not None:
        raise Refusal(
            "bad_tenant",
            "the name in tenant_id is not a valid tenant name; see `atdp keys create`",
        )
    if not principal.may_act_for(tenant):
        raise Refusal("tenant_mismatch", "the event names a tenant other than its producer's")


def _check_session(principal: Principal, record: Mapping[str, Any]) -> None:
    bound = principal.session
    if bound is not None and not bound.contains(
        record["trajectory_id"], record["attempt"], record["session_id"]
    ):
        raise Refusal(
            "session_mismatch",
            "a session key signed the event of another session, trajectory or attempt; "
            "a key of the tenant is valid for all of them",
        )


def _microseconds(time: datetime) -> int:
    return (time - _EPOCH) // _MICROSECOND
