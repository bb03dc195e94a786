"""The keys of quarantined payloads: one of each tenant, and one of each of its data subjects.

A record names the ids of the keys that it needs, the tenant's first: `<id>.<id>…`. Its content key
is derived from all of them. So destroying the key of a tenant makes all of its records unreadable,
and destroying that of a data subject those that name this person, also beside others.

The file of keys does not show whose they are: a data subject is found by a hash of the id under the
tenant's key. A record whose sender was not authenticated, or that is no readable event, names
nobody; such records have the key of their tenant, or of the tenant `unknown`.
"""

import hashlib
import hmac
from collections.abc import Collection, Mapping
from typing import Any, Final

from atdp.governance.errors import KeyDestroyed, SecretsError
from atdp.governance.master_keys import derived_key
from atdp.governance.redact.pseudonyms import is_pseudonym, normalised
from atdp.governance.wrapped_keys import DataKey, KeyScope, WrappedKeys
from atdp.runtime import UNKNOWN_TENANT, tenant_problem

MAX_SUBJECTS: Final = 100
"""Data subjects that a kept record may name. Each needs a key that is on the disk before."""
_SEPARATOR: Final = "."
_CONTENT: Final = "atdp quarantine content v3"
_SUBJECT: Final = "atdp quarantine subject v1"


def subjects_of(record: Mapping[str, Any]) -> frozenset[str]:
    """Return the data subjects, and the end user, that a raw event names."""
    stamp = record["governance"] or {}
    named = [*(stamp.get("data_subjects") or ()), record["end_user_id"]]
    return frozenset(normalised(each) for each in named if each)


def payload_key_ids(keys: WrappedKeys, tenant: str, subjects: Collection[str]) -> str:
    """Return the ids of the keys of a new record, which are made when there are none.

    Raises:
        HomeUnavailable: a key cannot be read or made.
    """
    (own,) = keys.current([KeyScope("quarantine", tenant)])
    scopes = [_scope_of_subject(own, tenant, each) for each in sorted(subjects)]
    return _SEPARATOR.join(key.key_id for key in (own, *keys.current(scopes)))


def content_key(keys: WrappedKeys, key_ids: str) -> bytes:
    """Return the key that seals the content of records with these ids of keys.

    Raises:
        KeyDestroyed: this home does not have one of them.
        HomeUnavailable: they cannot be read.
    """
    secrets = b""
    for key_id in key_ids.split(_SEPARATOR):
        key = keys.of_id(key_id)
        if key is None:
            raise KeyDestroyed(
                f"the key {key_id} is not in this home: it was destroyed, or the record is of "
                "another home"
            )
        secrets += key.secret
    return derived_key(secrets, _CONTENT)


def destroy_payload_keys(keys: WrappedKeys, tenant: str, subjects: Collection[str] = ()) -> int:
    """Destroy the keys of a tenant's quarantined payloads; return how many there were.

    With `subjects`, only those of these data subjects, as their events name them.

    Raises:
        SecretsError: no tenant can have this name, or a data subject is named by a pseudonym.
        HomeUnavailable: they cannot be destroyed.
    """
    if tenant != UNKNOWN_TENANT and (problem := tenant_problem(tenant)):
        raise SecretsError(problem)
    scope = KeyScope("quarantine", tenant)
    if not subjects:
        return keys.destroy([scope], all_subjects=True)
    if any(is_pseudonym(each) for each in subjects):
        raise SecretsError(
            "quarantined events name people by the ids that agents sent; state such an id and not "
            "its pseudonym"
        )
    generations = keys.all_of(scope)
    names = {normalised(each) for each in subjects}
    return keys.destroy(
        [_scope_of_subject(own, tenant, name) for own in generations for name in names]
    )


def _scope_of_subject(own: DataKey, tenant: str, subject: str) -> KeyScope:
    name = subject.encode("utf-8", "surrogatepass")
    digest = hmac.digest(derived_key(own.secret, _SUBJECT), name, hashlib.sha256)
    return KeyScope("quarantine", tenant, digest.hex())
