"""Who sent a raw record. Asked again here, because the log can be written by paths that pass no gateway."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from atdp.governance.errors import Refusal
from atdp.ingest.keys import Principal, StoredKey
from atdp.schemas import KEY_ID, SIGNATURE, SigningKey, header, verify

KeyLookup = Callable[[str], StoredKey | None]


def authenticate(value: bytes, headers: Sequence[tuple[str, bytes]] | None, keys: KeyLookup) -> Principal:
    """The principal whose key signed ``value``.

    Raises:
        Refusal: no signature, a wrong one, an unknown or revoked key, or a role that may not emit.
    """
    key_id, signature = header(headers, KEY_ID), header(headers, SIGNATURE)
    if key_id is None or signature is None:
        raise Refusal("unsigned", f"the record has no {KEY_ID} or {SIGNATURE} header")
    try:
        stored = keys(key_id.decode("ascii"))
    except UnicodeDecodeError:
        stored = None
    if stored is None:
        raise Refusal("unknown_key", "the record names an API key that this home does not know")
    if stored.revoked:
        raise Refusal("revoked_key", f"the API key {stored.principal.key_id} was revoked")
    signing = SigningKey(key_id=stored.principal.key_id, verifier=stored.verifier)
    if not verify(signing, value, signature):
        raise Refusal("bad_signature", "the signature is not that of the named API key over this record")
    if not stored.principal.may("emit"):
        raise Refusal("role_may_not_emit", f"the role {stored.principal.role} may not emit events")
    return stored.principal


def check_tenant(principal: Principal, tenant: str) -> None:
    """Raise :class:`Refusal` unless the principal may emit for ``tenant``."""
    if not principal.may_act_for(tenant):
        raise Refusal("tenant_mismatch", "the event names a tenant other than its producer's")
