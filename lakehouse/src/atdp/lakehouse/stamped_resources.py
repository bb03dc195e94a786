"""A landed trajectory as the authorizer sees it: one resource for each different stamp.

An action on the trajectory is allowed when it is allowed on each of them.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from atdp.access import NEVER_EXPIRES, DataResource
from atdp.lakehouse.connection import connect, withheld_by
from atdp.lakehouse.duckdb_sql import sql_literal
from atdp.lakehouse.lake import Lake
from atdp.lakehouse.queries import query
from atdp.lakehouse.visible_files import ANY_PURPOSE


def trajectory_resources(
    lake: Lake, *, tenant: str, trajectory_id: str, purpose: str, now: datetime
) -> Sequence[DataResource]:
    """Return the resources of a trajectory for a purpose; none when the tenant has no such one.

    Consent and retention are those that the register states now.

    Raises:
        RulesUnreadable: the register cannot be read.
    """
    names = {"tenant": sql_literal(tenant), "trajectory": sql_literal(trajectory_id)}
    with connect(lake=lake, tenant=tenant, purpose=ANY_PURPOSE) as connection:
        stamps = connection.all_rows(query("distinct_stamps", **names))
    if not stamps:
        return []
    withheld = withheld_by(lake, lake.use_rules(), purpose=purpose, tenants=[tenant])
    reason = withheld.reason(tenant, trajectory_id)
    return [
        DataResource(
            tenant=tenant,
            trajectory_id=trajectory_id,
            purposes=None if stamp["purposes"] is None else frozenset(stamp["purposes"]),
            consent=_CONSENT.get(reason, stamp["consent"]),
            classification=stamp["classification"],
            policy=_policy(stamp),
            quarantined=False,  # a quarantined event does not land
            token_fidelity=stamp["token_fidelity"] or "unknown",
            expires_at=NEVER_EXPIRES if reason in (None, *_CONSENT) else now,
        )
        for stamp in stamps
    ]


_CONSENT: Mapping[str | None, str | None] = {
    "consent_withdrawn_since": "withdrawn",
    "consent_expired": "expired",
    "rules_unreadable": None,
}
"""Consent by the reason why a trajectory is withheld; any other reason lets it expire."""


def _policy(stamp: Mapping[str, Any]) -> str | None:
    if stamp["policy_id"] is None or stamp["policy_version"] is None:
        return None
    return f"{stamp['policy_id']}@{stamp['policy_version']}"
