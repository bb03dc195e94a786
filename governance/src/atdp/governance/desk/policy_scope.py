"""The policies that a caller may see and decide about.

An operator decides about all. A steward decides about policies that name only its own tenant, and
also sees the policies for all tenants, which apply to it where no policy names it.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from atdp.governance.errors import PolicyDecisionDenied
from atdp.runtime import ANY_TENANT, Principal


@dataclass(frozen=True, slots=True)
class PolicyScope:
    """The rights of one caller at the desk."""

    principal: Principal

    def may_see(self, tenants: Iterable[str]) -> bool:
        """Return whether the caller may read a policy for these tenants."""
        return self.principal.may("govern") and all(
            tenant == ANY_TENANT or self.principal.may_act_for(tenant) for tenant in tenants
        )

    def check_role(self) -> None:
        """Check that the caller's role is one that decides about policies.

        Raises:
            PolicyDecisionDenied: it is not.
        """
        if not self.principal.may("govern"):
            raise PolicyDecisionDenied(
                f"role {self.principal.role!r} may not govern; "
                "use a key of a steward or of the operator (--key, or ATDP_API_KEY), "
                "or on the machine of the stack none: `env -u ATDP_API_KEY atdp policy …`"
            )

    def check_decides(self, policy_id: str, tenants: Iterable[str]) -> None:
        """Check that the caller may decide about a policy for these tenants.

        Raises:
            PolicyDecisionDenied: it may not.
        """
        self.check_role()
        if not all(self.principal.may_act_for(tenant) for tenant in tenants):
            raise PolicyDecisionDenied(
                f"the policy {policy_id} is for other tenants, too; a steward decides about "
                f"policies that name only its own tenant ({self.principal.tenant})"
            )

    def check_operates(self) -> None:
        """Check that the caller may change settings for all tenants.

        Raises:
            PolicyDecisionDenied: it may not.
        """
        self.check_role()
        if not self.principal.may_act_for(ANY_TENANT):
            raise PolicyDecisionDenied("only an operator changes the settings of all tenants")
