"""The permission of an event: consent, purposes and eligibility for training.

Consent is read from everyone who can withhold it: the event itself, the register of consent, and
the policy. One withdrawal is enough to withdraw. A grant counts only when nobody withdrew. A word
other than `granted` and `withdrawn` is neither. Training needs a grant.

The policy also says how much redaction may have changed the tokens of a model call for each purpose
(`min_fidelity`). A call whose tokens it changed more is not eligible for RL, or not for replay.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from atdp.governance.policy.compiled import CompiledPolicy
from atdp.governance.policy.document import GRANTED, WITHDRAWN, TenantTerms
from atdp.governance.token_fidelity import BEST_TO_WORST, DROPPED, UNKNOWN, TokenDecision

_UNKNOWN_CONSENT: Final = "unknown"
_TRAIN: Final = "train"
_REPLAY: Final = "replay"
_ALL_PURPOSES: Final = (_TRAIN, _REPLAY, "analytics")


@dataclass(frozen=True, slots=True)
class Permission:
    """The permitted uses of an event.

    `consent` is a symbol of the schema's enum. `eligible` is true when the event may be used for
    RL training; `reason` states why, or why not.
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
    tokens: TokenDecision,
) -> Permission:
    """Return what the policy, the register and the event permit together.

    `event_purposes`: the purposes that the event itself allows; None sets no limit, empty allows
    none. `tokens`: the decision about the event's token ids.
    """
    consent = _consent(policy, terms, tenant, event_consent)
    allowed = set(policy.purposes_of(tenant))
    if terms.purposes is not None:
        allowed &= set(terms.purposes)
    if event_purposes is not None:
        allowed &= set(event_purposes)
    if consent != GRANTED:
        allowed.discard(_TRAIN)
    limits = policy.document.min_fidelity
    if _is_beyond(tokens.fidelity, limits.replay):
        allowed.discard(_REPLAY)
    obstacle = _obstacle(consent, allowed, tokens, limits.train)
    return Permission(
        purposes=tuple(purpose for purpose in _ALL_PURPOSES if purpose in allowed),
        consent=consent,
        eligible=obstacle is None,
        reason=obstacle or "ok",
    )


def _consent(policy: CompiledPolicy, terms: TenantTerms, tenant: str, event_consent: str) -> str:
    by_policy = policy.consent_of(tenant).train
    registered = by_policy if terms.consent is None else terms.consent.train
    if WITHDRAWN in {event_consent, registered, by_policy}:
        return WITHDRAWN
    if registered == GRANTED and event_consent in {GRANTED, _UNKNOWN_CONSENT}:
        return GRANTED
    return _UNKNOWN_CONSENT


def _obstacle(
    consent: str, allowed: Collection[str], tokens: TokenDecision, limit: str
) -> str | None:
    """Return the reason why the event may not be used for RL training, or None."""
    if consent != GRANTED:
        return f"consent_{consent}"
    if _TRAIN not in allowed:
        return "purpose_not_allowed"
    if tokens.fidelity == UNKNOWN:
        return "no_token_ids"
    if _is_beyond(tokens.fidelity, limit):
        return tokens.reason or f"token_fidelity_{tokens.fidelity}"
    return None


def _is_beyond(fidelity: str | None, limit: str) -> bool:
    """Return whether redaction changed the tokens of a model call more than a limit allows.

    `fidelity` is None for an event that holds no generation.
    """
    if fidelity is None or limit == DROPPED:
        return False
    return fidelity not in BEST_TO_WORST[: BEST_TO_WORST.index(limit) + 1]
