"""The answer to the question whether a principal may do an action on data."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class AccessDecision:
    """An answer with its reason. It never holds values of events."""

    allowed: bool
    reason: str
    """A code: `allowed`, the guard that refused (see `guards`), `policy_forbids`,
    `no_policy_permits` or `policy_error`."""
    policies: tuple[str, ...] = ()
    """The rules that decided: `<document id>@<version>/<rule>`; empty when a guard refused."""
    errors: tuple[str, ...] = ()
    """Sentences: the guard's finding, or errors of rules. Any error denies."""
