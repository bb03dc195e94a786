"""Consent, purposes and training eligibility: who may use an event for what.

Consent is asked of everyone who can withhold it: the event itself, the register of consent, the
policy. Anyone's withdrawal counts; a grant counts only if nobody withdrew; a word that is not
`granted` or `withdrawn` is neither. Training needs a grant.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from atdp.governance.fidelity import EXACT, UNKNOWN
from atdp.governance.policy.compiled import CompiledPolicy
from atdp.governance.policy.document import TenantTerms

GRANTED = "granted"
WITHDRAWN = "withdrawn"
_ALL = ("train", "replay", "analytics")


@dataclass(frozen=True, slots=True)
class Permission:
    """What may be done with an event.

    `consent` is a symbol of the schema's enum; `eligible`: may train by RL, and `reason` says why
    (not).
    """

    purposes: tuple[str, ...]
    consent: str
    eligible: bool
    reason: str


def permission(
    policy: CompiledPolicy,
    terms: TenantTerms,
    tenant: str,
    *,
    event_consent: str,
    event_purposes: Sequence[str] | None,
    fidelity: str | None,
) -> Permission:
    """What the policy, the register and the event together allow.

    `event_purposes`: what the event is limited to already; `None` = no limit, empty = nothing.
    `fidelity` is `None` for events that hold no generation.
    """
    registered = (
        terms.consent.train if terms.consent is not None else policy.consent_of(tenant).train
    )
    said = {event_consent, registered, policy.consent_of(tenant).train}
    if WITHDRAWN in said:
        consent = WITHDRAWN
    elif registered == GRANTED and event_consent in {GRANTED, UNKNOWN}:
        consent = GRANTED
    else:
        consent = UNKNOWN
    allowed = set(policy.purposes_of(tenant))
    if terms.purposes is not None:
        allowed &= set(terms.purposes)
    if event_purposes is not None:
        allowed &= set(event_purposes)
    if consent != GRANTED:
        allowed.discard("train")
    purposes = tuple(purpose for purpose in _ALL if purpose in allowed)
    if consent != GRANTED:
        return Permission(purposes, consent, eligible=False, reason=f"consent_{consent}")
    if "train" not in allowed:
        return Permission(purposes, consent, eligible=False, reason="purpose_not_allowed")
    if fidelity not in {None, EXACT}:
        reason = "no_token_ids" if fidelity == UNKNOWN else f"token_fidelity_{fidelity}"
        return Permission(purposes, consent, eligible=False, reason=reason)
    return Permission(purposes, consent, eligible=True, reason="ok")
