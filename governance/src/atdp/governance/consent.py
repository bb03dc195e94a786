"""The permission of an event: consent, purposes and eligibility for training.

Consent is read from everyone who can withhold it: the event itself, the register of consent, and
the policy. One withdrawal is enough to withdraw. A grant counts only when nobody withdrew. A word
other than `granted` and `withdrawn` is neither. Training needs a grant; the other purposes end with
a withdrawal in the register.

The policy also says how much redaction may have changed the tokens of a model call for each purpose
(`min_fidelity`). A call whose tokens it changed more is not eligible for RL, or not for replay.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, TypeAlias

from atdp.access import USE_PURPOSES, UsedData
from atdp.governance.policy.compiled import CompiledPolicy
from atdp.governance.policy.document import GRANTED, WITHDRAWN
from atdp.governance.token_fidelity import BEST_TO_WORST, DROPPED, UNKNOWN, TokenDecision

RegisteredConsent: TypeAlias = Callable[[UsedData, str, datetime], str | None]
"""Returns what the register says about an event and a purpose: `granted`, `withdrawn` or another
word; None when it says nothing."""


def nothing_registered(data: UsedData, purpose: str, now: datetime) -> None:
    """Say nothing about any event, as a register without decisions about consent."""


_UNKNOWN_CONSENT: Final = "unknown"
_TRAIN: Final = "train"
_REPLAY: Final = "replay"


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
    tenant: str,
    *,
    registered: Callable[[str], str | None],
    event_consent: str,
    event_purposes: Sequence[str] | None,
    tokens: TokenDecision,
) -> Permission:
    """Return what the policy, the register and the event permit together.

    `registered`: what the register says about the event, by purpose. `event_purposes`: the purposes
    that the event itself allows; None sets no limit, empty allows none. `tokens`: the decision
    about the event's token ids.
    """
    consent = _consent(policy, tenant, registered(_TRAIN), event_consent)
    allowed = {
        purpose for purpose in policy.purposes_of(tenant) if registered(purpose) in {None, GRANTED}
    }
    if event_purposes is not None:
        allowed &= set(event_purposes)
    if consent != GRANTED:
        allowed.discard(_TRAIN)
    limits = policy.document.min_fidelity
    if _is_beyond(tokens.fidelity, limits.replay):
        allowed.discard(_REPLAY)
    obstacle = _obstacle(consent, allowed, tokens, limits.train)
    return Permission(
        purposes=tuple(purpose for purpose in USE_PURPOSES if purpose in allowed),
        consent=consent,
        eligible=obstacle is None,
        reason=obstacle or "ok",
    )


def _consent(
    policy: CompiledPolicy, tenant: str, registered: str | None, event_consent: str
) -> str:
    by_policy = policy.consent_of(tenant).train
    word = by_policy if registered is None else registered
    if WITHDRAWN in {event_consent, word, by_policy}:
        return WITHDRAWN
    if word == GRANTED and event_consent in {GRANTED, _UNKNOWN_CONSENT}:
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
