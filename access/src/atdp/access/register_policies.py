"""The active access policies of a home: the register, read to its end for every decision."""

import threading
from collections.abc import Callable, Sequence

from atdp.access.access_document import ACCESS_POLICY, rules_for
from atdp.access.authorizer import Authorizer
from atdp.access.policies.policy_log import PolicyLog
from atdp.access.policies.policy_state import ActivePolicy
from atdp.access.rule_set import AccessRules
from atdp.runtime import Home, Register, open_register


class RegisterAccessPolicies:
    """The access policies of a register, an `AccessPolicySource`; the register is opened late."""

    def __init__(self, open_register: Callable[[], Register]) -> None:
        """`open_register` may raise `PlatformError`; it is called again for the next decision."""
        self._open = open_register
        self._register: Register | None = None
        self._log = PolicyLog()
        self._lock = threading.Lock()

    def access_rules(self, tenant: str) -> Sequence[AccessRules]:
        """See `AccessPolicySource`.

        Raises:
            RegisterUnavailable: the register cannot be read to its end.
            AccessPolicyError: an active policy of the tenant is not valid.
        """
        with self._lock:
            self._read()
            return rules_for(tenant, self._log.by_tenant(ACCESS_POLICY))

    def active(self) -> Sequence[ActivePolicy]:
        """Return all active access policies.

        Raises:
            RegisterUnavailable: the register cannot be read to its end.
        """
        with self._lock:
            self._read()
            policies = self._log.active.values()
            return [each for each in policies if each.content.document_kind == ACCESS_POLICY]

    def close(self) -> None:
        """Release connections."""
        with self._lock:
            if self._register is not None:
                self._register.close()

    def _read(self) -> None:
        if self._register is None:
            self._register = self._open()
        for entry in self._register.read():
            self._log.apply(entry)


def open_authorizer(home: Home) -> Authorizer:
    """Return the authorizer of a home, with the access policies in its register.

    The register is opened at the first decision. While it cannot be read, everything is denied.
    """
    return Authorizer(RegisterAccessPolicies(lambda: open_register(home)))
