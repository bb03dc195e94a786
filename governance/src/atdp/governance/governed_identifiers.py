"""The governed forms of identifiers that a person names, as they stand in the lake.

A withdrawal of consent names a data subject or a session. Neither may enter the register raw, and
only the governed form matches what has landed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from atdp.access import REDACTION, DraftedContent, PolicyLog
from atdp.governance.errors import GovernanceError, PolicyError, Refusal
from atdp.governance.home_secrets import open_secrets
from atdp.governance.policy.compiled import compile_policy
from atdp.governance.policy.document import PolicyDocument, parse_policy
from atdp.governance.policy_store import NO_POLICY
from atdp.governance.redact.pseudonyms import TenantKey, is_pseudonym
from atdp.governance.tenant_keys import TenantKeyStore
from atdp.governance.walk.record_walk import DATA_SUBJECT
from atdp.governance.walk.string_governor import StringGovernor
from atdp.runtime import ANY_TENANT, Home, Register


@dataclass(frozen=True, slots=True)
class GovernedIdentifiers:
    """Governs identifiers with a home's keys of tenants, and the active policies of a register."""

    home: Home
    register: Register

    def subjects(self, tenant: str, identifier: str) -> Sequence[str]:
        """Return the governed forms of a data subject's or end user's id.

        There is one for each key of pseudonyms that the tenant has or had: after the keys were
        destroyed, what had landed before has another form. A governed form is returned as it is.

        Raises:
            GovernanceError: the tenant's keys cannot be used.
        """
        if is_pseudonym(identifier):
            return (identifier,)
        return tuple(key.pseudonym(DATA_SUBJECT, identifier) for key in self._keys_of(tenant))

    def sessions(self, tenant: str, identifier: str) -> Sequence[str]:
        """Return the governed forms of a session's id.

        What is found in it depends on the policy. So there is one form for each policy that is, or
        was, in force for the tenant, and for each of its keys, where they differ: what has landed
        keeps the form of its time.

        Raises:
            GovernanceError: no policy of the tenant can be used, or its key cannot be used.
            RegisterUnavailable: the register cannot be read.
        """
        keys = self._keys_of(tenant)
        forms: dict[str, None] = {}
        problem: GovernanceError = Refusal(NO_POLICY, f"no policy applies to the tenant {tenant!r}")
        for content in self._were_in_force(tenant):
            try:
                document = parse_policy(content.text, where=f"{content.id}@{content.version}")
                if isinstance(document, PolicyDocument):
                    policy = compile_policy(document, try_patterns=False)
                    for key in keys:
                        form = StringGovernor(policy, key).identifier(identifier).text
                        forms[form or ""] = None
            except (PolicyError, Refusal) as error:
                # No event passes under a policy that cannot be used or that refuses the id.
                problem = error
        if not forms:
            raise problem
        return tuple(forms)

    def _keys_of(self, tenant: str) -> Sequence[TenantKey]:
        with open_secrets(self.home) as secrets:
            return TenantKeyStore(secrets).every_key_of(tenant)

    def _were_in_force(self, tenant: str) -> Iterator[DraftedContent]:
        log = PolicyLog()
        for entry in self.register.read():
            log.apply(entry)
        for policy_id in log.ids():
            for draft in log.drafts(policy_id):
                content = draft.content
                if (
                    draft.activated_at is not None
                    and content.document_kind == REDACTION
                    and not {tenant, ANY_TENANT}.isdisjoint(content.tenants)
                ):
                    yield content
