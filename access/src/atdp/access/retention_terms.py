"""The time for which data may be used, by retention class, as active policies state it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Self

POLICY_ACTIVATED: Final = "policy_activated"
"""Kind of the entries that activate a policy."""
_GOVERNANCE_POLICY: Final = "GovernancePolicy"
_ANY_TENANT: Final = "*"
_DEFAULT_CLASS: Final = "default"


@dataclass(frozen=True, kw_only=True, slots=True)
class _ActiveTerms:
    version: int
    tenants: frozenset[str]
    days: Mapping[str, float]

    @classmethod
    def parse(cls, body: Mapping[str, Any]) -> Self:
        """Raise KeyError, TypeError or ValueError for what cannot be understood."""
        days = {str(name): float(value) for name, value in body["retention"].items()}
        if any(not value > 0 for value in days.values()) or isinstance(body["tenants"], str):
            raise ValueError("retention")
        return cls(version=int(body["version"]), tenants=frozenset(body["tenants"]), days=days)


class RetentionTerms:
    """The retention of every tenant, from the entries that activate governance policies.

    A policy that names a tenant comes before one for all tenants. Where two name it, the shorter
    time holds. The policy desk decides which activations are valid; here the version of a policy
    only rises.
    """

    def __init__(self) -> None:
        self._active: dict[str, _ActiveTerms] = {}

    def copy(self) -> "RetentionTerms":
        """Return terms that change on their own."""
        copied = RetentionTerms()
        copied._active = dict(self._active)
        return copied

    def activate(self, body: Mapping[str, Any]) -> str | None:
        """Take an activation; returns why it has no effect, else None.

        Raises:
            KeyError, TypeError, ValueError: it cannot be understood.
        """
        if body["document_kind"] != _GOVERNANCE_POLICY:
            return None
        terms, before = _ActiveTerms.parse(body), self._active.get(str(body["id"]))
        if before is not None and terms.version <= before.version:
            return "version_not_higher"
        self._active[str(body["id"])] = terms
        return None

    def limit(self, tenant: str, retention_class: str | None) -> timedelta | None:
        """Return the longest age at which data of a class may be used; None: there is no limit."""
        days = [
            terms.days[name]
            for terms in self._of(tenant)
            if (name := _class_in(terms.days, retention_class)) is not None
        ]
        return timedelta(days=min(days)) if days else None

    @property
    def exists(self) -> bool:
        """Return whether a policy states any retention."""
        return any(terms.days for terms in self._active.values())

    def names(self, tenant: str) -> frozenset[str]:
        """Return the classes that have a time of their own."""
        return frozenset(name for terms in self._of(tenant) for name in terms.days)

    def _of(self, tenant: str) -> list[_ActiveTerms]:
        named = [terms for terms in self._active.values() if tenant in terms.tenants]
        return named or [each for each in self._active.values() if _ANY_TENANT in each.tenants]


def _class_in(days: Mapping[str, float], retention_class: str | None) -> str | None:
    if retention_class is not None and retention_class in days:
        return retention_class
    return _DEFAULT_CLASS if _DEFAULT_CLASS in days else None
