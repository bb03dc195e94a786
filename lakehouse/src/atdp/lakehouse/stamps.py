"""The decision from governance stamps: whether a trajectory may be used for a purpose.

Governance decided before the data landed. This decides again, from the stamps alone. Anything that
is missing counts against the trajectory.
"""

from collections.abc import Mapping
from typing import Any, Literal

from atdp.lakehouse.admission import EXACT
from atdp.lakehouse.trajectory_records import GenerationRecord

Purpose = Literal["train", "replay"]

NO_STAMP = "no_stamp"
NO_PURPOSE = "purpose_not_allowed"
WITHDRAWN = "consent_withdrawn"
NO_CONSENT = "consent_unknown"
NOT_ELIGIBLE = "not_eligible"
NOT_EXACT = "tokens_not_exact"
DISAGREES = "row_disagrees_with_stamp"
"""A generation was read that its trajectory's stamps should have refused."""


def refusal(row: Mapping[str, Any], purpose: Purpose, *, exact: bool) -> str | None:
    """Return why a trajectory may not be used, from its row of `candidates.sql`; None: it may.

    `exact` asks, for `train`, that all events are eligible for RL and all token ids are
    exact.
    """
    if row["without_stamp"] is not False:
        return NO_STAMP
    if purpose == "train" and row["without_consent"] is not False:
        return WITHDRAWN if row["withdrawn"] else NO_CONSENT
    if row["without_purpose"] is not False:
        return NO_PURPOSE
    if purpose != "train" or not exact:
        return None
    if row["training_eligible"] is not True:
        return str(row["eligibility_reason"] or NOT_ELIGIBLE)
    return None if row["token_fidelity"] in (None, EXACT) else NOT_EXACT


def may_be_used(
    record: GenerationRecord, row: Mapping[str, Any], purpose: Purpose, *, exact: bool
) -> bool:
    """Return whether one generation that was read may be used; the check of each row itself."""
    if not record.policy_id or purpose not in str(row["allowed_purposes"]).split("."):
        return False
    if purpose != "train":
        return True
    if row["consent"] != "granted":
        return False
    return not exact or (record.training_eligible and record.token_fidelity == EXACT)
