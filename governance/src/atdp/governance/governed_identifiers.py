"""The governed forms of identifiers that a person names, as they stand in the lake.

A withdrawal of consent names a data subject or a session. Neither may enter the register raw, and
only the governed form matches what has landed.
"""

from dataclasses import dataclass

from atdp.governance.policy_store import PolicyStore
from atdp.governance.redact.pseudonyms import is_pseudonym
from atdp.governance.tenant_keys import TenantKeyStore
from atdp.governance.walk.record_walk import DATA_SUBJECT
from atdp.governance.walk.string_governor import StringGovernor
from atdp.runtime import Home, Register


@dataclass(frozen=True, slots=True)
class GovernedIdentifiers:
    """Governs identifiers with a home's keys of tenants, and the active policies of a register."""

    home: Home
    register: Register

    def subject(self, tenant: str, identifier: str) -> str:
        """Return the governed form of a data subject's or end user's id.

        It depends on the tenant's key only: after the key was destroyed, what had landed before has
        another form. A governed form is returned as it is.

        Raises:
            GovernanceError: the tenant's key cannot be used.
        """
        if is_pseudonym(identifier):
            return identifier
        key = TenantKeyStore(self.home.tenant_keys).key_of(tenant)
        return key.pseudonym(DATA_SUBJECT, identifier)

    def session(self, tenant: str, identifier: str) -> str:
        """Return the governed form of a session's id.

        Raises:
            GovernanceError: the tenant has no usable policy, or its key cannot be used.
        """
        policies = PolicyStore(self.register)
        policies.refresh()
        key = TenantKeyStore(self.home.tenant_keys).key_of(tenant)
        return StringGovernor(policies.policy_for(tenant), key).identifier(identifier).text or ""
