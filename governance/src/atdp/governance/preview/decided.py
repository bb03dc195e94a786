"""The policies and the consent that hold when a preview begins, read from the register."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from atdp.access import PolicyLog, UseRules
from atdp.governance.desk.policy_choice import ContentChoice, chosen_draft
from atdp.governance.desk.policy_scope import PolicyScope
from atdp.governance.errors import PreviewError
from atdp.governance.policy.document import PolicyDocument, parse_policy
from atdp.runtime import Principal, Register


@dataclass(frozen=True, slots=True)
class DecidedPolicies:
    """All that the register says about policies and consent at one time."""

    log: PolicyLog
    rules: UseRules

    @classmethod
    def read(cls, register: Register) -> "DecidedPolicies":
        """Read a register from its beginning; nobody else reads from it.

        Raises:
            RegisterUnavailable: it cannot be read.
        """
        decided = cls(PolicyLog(), UseRules())
        for entry in register.read():
            decided.log.apply(entry)
            decided.rules.apply(entry)
        return decided

    def active(self, wants: Callable[[str], bool]) -> Mapping[str, PolicyDocument]:
        """Return the active policies by those of their tenants that are wanted, `*` included."""
        return {
            tenant: preview_document(active.content.text, where=active.name)
            for tenant, active in self.log.by_tenant().items()
            if wants(tenant)
        }

    def drafted(self, caller: Principal, choice: ContentChoice) -> PolicyDocument:
        """Return a version that was drafted.

        Raises:
            PolicyDecisionDenied, PolicyUnknown: the caller may see none.
        """
        scope = PolicyScope(caller)
        scope.check_role()
        draft = chosen_draft(self.log, scope, choice)
        return preview_document(draft.content.text, where=f"{choice.id}@{choice.version}")


def preview_document(text: str, *, where: str) -> PolicyDocument:
    """Return the policy of a text.

    Raises:
        PolicyError: it is not a policy; the message has line and column.
        PreviewError: it is an access policy, which governs no record.
    """
    document = parse_policy(text, where=where)
    if not isinstance(document, PolicyDocument):
        raise PreviewError(
            f"{where} is of kind {document.kind}; only a GovernancePolicy can be previewed. "
            "`atdp policy test` runs the tests of an access policy"
        )
    return document
