"""The answer to the question whether a principal may do an action on data."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class AccessDecision:
    """An answer with its reason. It never holds values of events."""

    allowed: bool
    reason: str
    """A code: `allowed`, the guard that refused (see `guards`), or `policy_forbids`,
    `no_policy_permits`, `depends_on_trajectory` (asked about all data of a tenant, and a rule
    decides by attributes of single trajectories), `policy_error`, `policies_unavailable`."""
    policies: tuple[str, ...] = ()
    """The rules that decided: `<document id>@<version>/<rule>`; empty when a guard refused."""
    errors: tuple[str, ...] = ()
    """Sentences: the guard's finding, or errors of rules. Any error denies."""

    @property
    def explanation(self) -> str:
        """The reason, the rules and the errors, in one line."""
        parts = [self.reason]
        if self.policies:
            parts.append("by " + ", ".join(self.policies))
        return ": ".join([" ".join(parts), *self.errors])
