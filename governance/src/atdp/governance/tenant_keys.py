"""The keys of the tenants' pseudonyms and surrogates, among the wrapped keys of a home.

A tenant's first event makes its key. It stays when the master key is rotated. A new one that is
asked for then is used from the next transaction on; the earlier ones are kept, because people are
still found by their earlier pseudonyms when they withdraw consent.

Destroying the keys is final: nobody can link what was written under them to its values any more,
and the tenant's values get other surrogates from the next transaction on.
"""

from dataclasses import dataclass, field

from atdp.governance.errors import Refusal, SecretsError
from atdp.governance.redact.pseudonyms import TenantKey
from atdp.governance.wrapped_keys import KeyScope, WrappedKeys
from atdp.runtime import tenant_problem


@dataclass(slots=True)
class TenantKeyStore:
    """The keys of pseudonyms of a home. Not thread-safe."""

    keys: WrappedKeys
    _used: dict[str, str] = field(default_factory=dict)
    """Id of the key that was returned last, by tenant."""

    def key_of(self, tenant: str) -> TenantKey:
        """Return the tenant's key, which is created when it has none.

        Raises:
            HomeUnavailable: it cannot be read or made. Nothing can be governed for the tenant until
                that is repaired.
            Refusal: no tenant can have this name.
        """
        (key,) = self.keys.current([_scope(tenant)])
        self._used[tenant] = key.key_id
        return TenantKey(key.secret)

    def every_key_of(self, tenant: str) -> list[TenantKey]:
        """Return the tenant's key and those before it, the newest first.

        Raises:
            HomeUnavailable, Refusal: see `key_of`.
        """
        current = self.key_of(tenant)
        before = self.keys.all_of(_scope(tenant))[1:]
        return [current, *(TenantKey(key.secret) for key in before)]

    def refresh(self) -> bool:
        """Return whether a key that was returned is the tenant's key no more, and forget it.

        Raises:
            HomeUnavailable: a key cannot be read.
        """
        gone = []
        for tenant, key_id in self._used.items():
            newest = self.keys.newest(_scope(tenant))
            if newest is None or newest.key_id != key_id:
                gone.append(tenant)
        for tenant in gone:
            del self._used[tenant]
        return bool(gone)

    def destroy(self, tenant: str) -> bool:
        """Destroy the tenant's keys; return whether it had any.

        Raises:
            SecretsError: no tenant can have this name.
            HomeUnavailable: they cannot be destroyed.
        """
        if problem := tenant_problem(tenant):
            raise SecretsError(problem)
        return self.keys.destroy([_scope(tenant)]) > 0


def _scope(tenant: str) -> KeyScope:
    if tenant_problem(tenant):
        raise Refusal("tenant_name", "the event's tenant has a name that no tenant can have")
    return KeyScope("pseudonyms", tenant)
