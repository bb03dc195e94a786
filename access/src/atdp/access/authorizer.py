"""The one place where an action on data is allowed or denied.

First the guards, then the rules. The answer of the rules depends on the principal, the action, the
attributes of the data and the content of the rules alone, and is remembered by these; the guards,
which depend on the time, are asked every time.
"""

import threading
from collections.abc import Hashable, Sequence
from datetime import datetime
from typing import Final, Protocol

from atdp.access.access_decision import AccessDecision
from atdp.access.errors import AccessPolicyError
from atdp.access.guards import Resource, guard_refusal
from atdp.access.rule_set import AccessRules, RuleSet
from atdp.runtime import PlatformError, Principal

_REMEMBERED: Final = 10_000
"""Most answers that are remembered; a decision by the rules takes a tenth of a millisecond."""
_NAMED_IN_RULES: Final = (
    "purposes",
    "consent",
    "classification",
    "policy",
    "agent",
    "token_fidelity",
)
"""Attributes of a trajectory that rules can name."""


class AccessPolicySource(Protocol):
    """Gives the active access policies of a tenant."""

    def access_rules(self, tenant: str) -> Sequence[AccessRules]:
        """Return the rules that are added to those of every home; none for most tenants.

        Raises:
            PlatformError: they cannot be read; then nothing of the tenant is allowed.
            AccessError: the same.
        """
        ...


class NoAccessPolicies:
    """A home without access policies; the rules of every home alone decide."""

    def access_rules(self, tenant: str) -> Sequence[AccessRules]:  # noqa: ARG002
        """Return nothing."""
        return ()


class _ReadOnce:
    """The policies of another source as they are when a tenant is first asked for."""

    def __init__(self, policies: AccessPolicySource) -> None:
        self._policies = policies
        self._read: dict[str, Sequence[AccessRules]] = {}

    def access_rules(self, tenant: str) -> Sequence[AccessRules]:
        """See `AccessPolicySource`."""
        if tenant not in self._read:
            self._read[tenant] = tuple(self._policies.access_rules(tenant))
        return self._read[tenant]


class Authorizer:
    """Decides whether a principal may do an action on data. Safe to use from several threads."""

    def __init__(self, policies: AccessPolicySource | None = None) -> None:
        """Take the access policies; None: the rules of every home alone decide."""
        self._policies = policies or NoAccessPolicies()
        self._lock = threading.Lock()
        self._compiled: dict[tuple[AccessRules, ...], RuleSet] = {}
        self._remembered: dict[Hashable, AccessDecision] = {}

    def pinned(self) -> "Authorizer":
        """Return an authorizer that reads the policies of a tenant once, for one use of much data.

        What was decided before is remembered by both.
        """
        return self.using(_ReadOnce(self._policies))

    def using(self, policies: AccessPolicySource) -> "Authorizer":
        """Return an authorizer with other access policies.

        What was decided before is remembered by both; answers depend on the content of the rules.
        """
        other = Authorizer(policies)
        other._lock, other._compiled = self._lock, self._compiled
        other._remembered = self._remembered
        return other

    def authorize(
        self, principal: Principal, action: str, resource: Resource, now: datetime
    ) -> AccessDecision:
        """Return the decision; it never raises. `now` is aware."""
        refusal = guard_refusal(principal, action, resource, now)
        if refusal is not None:
            return AccessDecision(allowed=False, reason=refusal.reason, errors=(refusal.message,))
        try:
            rules = self._rule_set(tuple(self._policies.access_rules(resource.tenant or "")))
        except (AccessPolicyError, PlatformError) as error:
            return AccessDecision(
                allowed=False, reason="policies_unavailable", errors=(str(error),)
            )
        key = (rules.hash, _identity(principal), action, _attributes(resource))
        decision = self._remembered.get(key)
        if decision is None:
            decision = rules.decide(principal, action, resource)
            with self._lock:
                if len(self._remembered) >= _REMEMBERED:
                    self._remembered.clear()
                self._remembered[key] = decision
        return decision

    def _rule_set(self, rules: tuple[AccessRules, ...]) -> RuleSet:
        with self._lock:
            compiled = self._compiled.get(rules)
        if compiled is None:
            compiled = RuleSet(rules)
            with self._lock:
                if len(self._compiled) >= _REMEMBERED:
                    self._compiled.clear()
                self._compiled[rules] = compiled
        return compiled


def _identity(principal: Principal) -> Hashable:
    return (principal.actor, principal.tenant, principal.roles)


def _attributes(resource: Resource) -> Hashable:
    """Return the attributes that rules can name; not the id of the trajectory, nor the time."""
    return (
        type(resource).__name__,
        resource.tenant,
        *(getattr(resource, name, None) for name in _NAMED_IN_RULES),
    )
