"""The trajectories in the lake that a decision about consent is about.

A misspelt person or session matches nothing, which its steward should learn at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from atdp.lakehouse import ANY_PURPOSE, Lake, connect, sql_literal

if TYPE_CHECKING:
    from atdp.access import StandingDecision

_CONDITIONS: Final = {
    "tenant": "true",
    "session": "session_id = {value}",
    "subject": "end_user_id = {value} OR list_contains(governance.data_subjects, {value})",
}


@dataclass(frozen=True, slots=True)
class MatchingTrajectories:
    """The trajectories of a tenant in the lake: those that match a decision, and all."""

    matching: int
    of_tenant: int

    @property
    def words(self) -> str:
        """A sentence for the steward."""
        if not self.of_tenant:
            return "The lake holds no data of this tenant yet; the decision holds for what comes."
        if not self.matching:
            return (
                "Nothing in the lake matches, so check the spelling; "
                "the decision holds for what comes."
            )
        return f"It is about {self.matching} of {self.of_tenant} trajectories of the tenant now."


def matching_trajectories(
    lake: Lake, decisions: "Sequence[StandingDecision]"
) -> MatchingTrajectories:
    """Count the trajectories that decisions about one place are about; they share their tenant.

    Raises:
        LakehouseError: the lake cannot be read.
    """
    tenant = decisions[0].decision.tenant
    condition = " OR ".join(
        _CONDITIONS[each.decision.scope].format(value=sql_literal(each.decision.value or ""))
        for each in decisions
    )
    with connect(lake=lake, tenant=tenant, purpose=ANY_PURPOSE) as connection:
        (row,) = connection.all_rows(
            "SELECT count(DISTINCT trajectory_id) AS of_tenant, "  # noqa: S608 - literals
            f"count(DISTINCT trajectory_id) FILTER (WHERE {condition}) AS matching FROM events"
        )
    return MatchingTrajectories(row["matching"], row["of_tenant"])
