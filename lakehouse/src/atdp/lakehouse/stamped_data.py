"""The data of one stamp as the authorizer sees it."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from atdp.access import NEVER_EXPIRES, DataResource

STAMP: Final[Mapping[str, str]] = {
    "purposes": "governance.purposes",
    "consent": "governance.consent",
    "classification": "governance.classification",
    "policy_id": "governance.policy_id",
    "policy_version": "governance.policy_version",
    "token_fidelity": "governance.token_fidelity",
    "agent": "agent.id",
}
"""Everything of an event that a decision about it depends on: name → expression over `events`."""

ANY_TRAJECTORY: Final = "*"
"""Id of the trajectory in a decision about all trajectories with the same stamp. Rules cannot name
it."""


def stamped_data(
    stamp: Mapping[str, Any],
    *,
    trajectory_id: str = ANY_TRAJECTORY,
    expires_at: datetime = NEVER_EXPIRES,
) -> DataResource:
    """Return the data with a stamp, a row of `stamps.sql`."""
    return DataResource(
        tenant=stamp["tenant_id"],
        trajectory_id=trajectory_id,
        purposes=None if stamp["purposes"] is None else frozenset(stamp["purposes"]),
        consent=stamp["consent"],
        classification=stamp["classification"],
        policy=_policy(stamp),
        agent=stamp["agent"] or "unknown",
        quarantined=False,  # a quarantined event does not land
        token_fidelity=stamp["token_fidelity"] or "unknown",
        expires_at=expires_at,
    )


def _policy(stamp: Mapping[str, Any]) -> str | None:
    if stamp["policy_id"] is None or stamp["policy_version"] is None:
        return None
    return f"{stamp['policy_id']}@{stamp['policy_version']}"
