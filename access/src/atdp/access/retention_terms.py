"""The time for which data may be used, by retention class, as active policies state it."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from atdp.access.policies.policy_state import ActivePolicy
from atdp.runtime import ANY_TENANT

_DEFAULT_CLASS: Final = "default"


class RetentionTerms:
    """The retention of every tenant: that of the policy that names it, else of the one for all."""

    def __init__(self, by_tenant: Mapping[str, ActivePolicy] | None = None) -> None:
        """Take the active governance policies by tenant."""
        self._days = {
            tenant: policy.content.retention for tenant, policy in (by_tenant or {}).items()
        }

    @property
    def exists(self) -> bool:
        """Return whether a policy states any retention."""
        return any(self._days.values())

    def names(self, tenant: str) -> frozenset[str]:
        """Return the classes that have a time of their own."""
        return frozenset(self._of(tenant))

    def limit(self, tenant: str, retention_class: str | None) -> timedelta | None:
        """Return the longest age at which data of a class may be used; None: there is no limit."""
        days = self._of(tenant)
        found = days.get(retention_class or _DEFAULT_CLASS, days.get(_DEFAULT_CLASS))
        return None if found is None else timedelta(days=found)

    def _of(self, tenant: str) -> Mapping[str, float]:
        return self._days.get(tenant, self._days.get(ANY_TENANT, {}))
