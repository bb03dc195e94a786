"""The data that an action is to be done on.

`TenantData` is all data of a tenant, where the reader itself selects rows by their stamps, as SQL
does for analytics. `DataResource` is one trajectory with the attributes of its stamp.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

NEVER_EXPIRES: Final = datetime.max.replace(tzinfo=UTC)
"""`DataResource.expires_at` of data that nothing lets expire."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TenantData:
    """All data of one tenant."""

    tenant: str


@dataclass(frozen=True, kw_only=True, slots=True)
class DataResource:
    """One trajectory. None in any field means that the attribute is not known, which denies."""

    tenant: str | None
    trajectory_id: str | None
    purposes: frozenset[str] | None
    """Purposes that the stamps of all of its events allow."""
    consent: str | None
    """By the stamp, about training: `granted`, `withdrawn` or `unknown`. By the register, about the
    action that is asked: `withdrawn_since` or `expired`."""
    classification: str | None
    policy: str | None
    """The policy that governed it, as `id@version`."""
    agent: str | None
    """The agent that its events name; `unknown` where they name none."""
    quarantined: bool | None
    """True when an event of it is in quarantine."""
    token_fidelity: str | None
    """`exact`, `context_changed`, `spliced`, `dropped`, or `unknown` where it has no tokens."""
    expires_at: datetime | None
    """Aware. From this time on it may not be used; `NEVER_EXPIRES` where nothing limits it."""
