"""The guards: conditions in Python that are checked before any rule that people write.

No text of an access policy can allow what a guard refuses. They are checked in this order:

- `unknown_action`: the action is none of `Action`.
- `missing_attribute`: an attribute that the action needs is not known.
- `other_tenant`: the data belongs to another tenant than the principal.
- `role_denied`: no role of the principal has the permission for the action.
- `single_trajectory_needed`: the action is not decided for all data of a tenant at once.
- `quarantined`, `expired`, `consent_missing`, `purpose_missing`: for governed data, its state.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Final, TypeAlias

from atdp.access.actions import (
    ACTIONS,
    GOVERNED_ACTIONS,
    PERMISSION_OF,
    RESTRICTED_ACTIONS,
)
from atdp.access.data_resource import DataResource, TenantData
from atdp.runtime import Principal

Resource: TypeAlias = DataResource | TenantData


@dataclass(frozen=True, slots=True)
class GuardRefusal:
    """The guard that refused, and a sentence about it."""

    reason: str
    message: str


def guard_refusal(
    principal: Principal, action: str, resource: Resource, now: datetime
) -> GuardRefusal | None:
    """Return the first guard that refuses; None when every guard lets the action pass."""
    if action not in ACTIONS:
        known = ", ".join(sorted(ACTIONS))
        return GuardRefusal("unknown_action", f"no action has this name; known: {known}")
    if (name := _missing_attribute(action, resource)) is not None:
        return GuardRefusal("missing_attribute", f"the attribute {name!r} of the data is not known")
    if not principal.may_act_for(resource.tenant or ""):
        return GuardRefusal("other_tenant", "the data belongs to another tenant")
    if not principal.may(PERMISSION_OF[action]):
        roles = ", ".join(principal.roles)
        return GuardRefusal("role_denied", f"no role of the principal ({roles}) may {action}")
    if isinstance(resource, TenantData):
        if action in RESTRICTED_ACTIONS:
            return GuardRefusal(
                "single_trajectory_needed", f"{action} is decided for single trajectories only"
            )
        return None
    if action in GOVERNED_ACTIONS:
        return _refusal_of_state(action, resource, now)
    return None


def _missing_attribute(action: str, resource: Resource) -> str | None:
    if not resource.tenant:
        return "tenant"
    if isinstance(resource, TenantData) or action not in GOVERNED_ACTIONS:
        return None
    for field in fields(resource):
        if getattr(resource, field.name) in (None, ""):
            return field.name
    return None


def _refusal_of_state(action: str, resource: DataResource, now: datetime) -> GuardRefusal | None:
    for reason, message, refuses in _STATE_GUARDS:
        if refuses(action, resource, now):
            return GuardRefusal(reason, message)
    return None


def _is_expired(_action: str, resource: DataResource, now: datetime) -> bool:
    expires_at = resource.expires_at
    # A time without a zone cannot be compared; it counts as over.
    return expires_at is None or expires_at.tzinfo is None or now >= expires_at


def _lacks_consent(action: str, resource: DataResource, _now: datetime) -> bool:
    """Return True when consent forbids an action.

    What was withdrawn at capture is the consent to training; the purposes of the stamp say what
    else is permitted. A withdrawal since then has been asked for about the action itself.
    """
    if resource.consent in ("withdrawn_since", "expired"):
        return True
    if action == "export" and resource.consent == "withdrawn":
        return True
    return action == "train" and resource.consent != "granted"


_StateGuard: TypeAlias = Callable[[str, DataResource, datetime], bool]
_STATE_GUARDS: Final[Sequence[tuple[str, str, _StateGuard]]] = (
    (
        "quarantined",
        "an event of the trajectory is in quarantine",
        lambda _action, resource, _now: resource.quarantined is not False,
    ),
    ("expired", "the time for which the data may be used is over", _is_expired),
    ("consent_missing", "consent is withdrawn, expired, or not granted", _lacks_consent),
    (
        "purpose_missing",
        "the policy that governed the data did not allow this purpose",
        lambda action, resource, _now: action not in (resource.purposes or frozenset()),
    ),
)
