"""The decision from governance stamps: whether a trajectory may be used for a purpose.

Governance decided before the data landed. This decides again, from the stamps alone. Anything that
is missing counts against the trajectory.
"""

from collections.abc import Mapping
from typing import Any, Literal

from atdp.lakehouse.admission import admitted_fidelities
from atdp.lakehouse.trajectory_records import GenerationRecord
from atdp.schemas import TokenFidelity

Purpose = Literal["train", "replay", "export"]

NO_STAMP = "no_stamp"
NO_PURPOSE = "purpose_not_allowed"
WITHDRAWN = "consent_withdrawn"
NO_CONSENT = "consent_unknown"
NOT_SETTLED = "not_settled"
"""Governance has learned values from the trajectory, and has not yet governed all of its events
with them."""
NOT_ELIGIBLE = "not_eligible"
NOT_EXACT = "tokens_not_exact"
_CHANGED = ("context_changed", "spliced", "dropped")
"""Token fidelities of which redaction is the cause."""
DISAGREES = "row_disagrees_with_stamp"
"""A generation was read that its trajectory's stamps should have refused."""


def refusal(row: Mapping[str, Any], purpose: Purpose, *, exact: TokenFidelity | None) -> str | None:
    """Return why a trajectory may not be used, from its row of `candidates.sql`; None: it may.

    `exact` asks, for `train`, that all events are eligible for RL and that redaction has changed no
    token ids more than it says; None asks for neither.
    """
    if row["without_stamp"] is not False:
        return NO_STAMP
    if purpose == "train" and row["without_consent"] is not False:
        return WITHDRAWN if row["withdrawn"] else NO_CONSENT
    if purpose == "export" and row["withdrawn"] is not False:
        return WITHDRAWN
    if row["without_purpose"] is not False:
        return NO_PURPOSE
    if row["settled"] is not True:
        return NOT_SETTLED
    if purpose != "train" or exact is None:
        return None
    if row["training_eligible"] is not True:
        return str(row["eligibility_reason"] or NOT_ELIGIBLE)
    if row["token_fidelity"] is None or row["token_fidelity"] in admitted_fidelities(exact):
        return None
    return NOT_EXACT


def only_tokens_refuse(row: Mapping[str, Any], purpose: Purpose) -> bool:
    """Return whether nothing but tokens that governance has changed refuses a trajectory.

    Purpose and consent then permit to learn from its reward.
    """
    return (
        refusal(row, purpose, exact=None) is None
        and row["otherwise_ineligible"] is False
        and row["token_fidelity"] in _CHANGED
    )


def may_be_used(
    record: GenerationRecord,
    row: Mapping[str, Any],
    purpose: Purpose,
    *,
    exact: TokenFidelity | None,
) -> bool:
    """Return whether one generation that was read may be used; the check of each row itself."""
    if not record.policy_id or purpose not in str(row["allowed_purposes"]).split("."):
        return False
    if purpose != "train":
        return True
    if row["consent"] != "granted":
        return False
    if exact is None:
        return True
    return record.training_eligible and record.token_fidelity in admitted_fidelities(exact)
