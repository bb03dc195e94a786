"""The rules that a decision about a policy has to keep; each returns the reason of a refusal.

- Versions of a policy only rise. A version that was approved or activated never gets other content.
- An activation needs an approval of exactly its content. With the two-person rule, the approval is
  by another principal than the one who first drafted that content.
- At most one active policy of a kind names a tenant. `*` stands for the tenants that none names.
- A setting that is not newer than the last one is refused, so that nobody can bring an old one back
  by writing its signed entry again.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from pydantic import ValidationError

from atdp.access.policies.policy_entries import (
    BODIES,
    ActivatedContent,
    ApprovedContent,
    DraftedContent,
    PolicySettings,
)
from atdp.access.policies.policy_state import PolicyState
from atdp.runtime import RegisterEntry

_DRAFTED: Final = set(DraftedContent.model_fields)


def refusal_of(state: PolicyState, entry: RegisterEntry) -> str | None:
    """Return the reason why this entry is refused as the next one of the log; None: it is not."""
    try:
        body = BODIES[entry.kind].model_validate(entry.body)
    except (KeyError, ValidationError):
        return "the entry does not have the form of its kind"
    return _RULES[entry.kind](state, body, entry)


def _refusal_of_setting(state: PolicyState, _: PolicySettings, entry: RegisterEntry) -> str | None:
    if state.set_at is not None and entry.recorded_at <= state.set_at:
        return "a newer setting is in the register"
    return None


def _refusal_of_draft(state: PolicyState, body: DraftedContent, _: RegisterEntry) -> str | None:
    if state.find(body) is not None:
        return None
    kinds = {draft.content.document_kind for draft in state.drafts(body.id)}
    if kinds and body.document_kind not in kinds:
        return (
            f"{body.id} is a policy of kind {kinds.pop()}, not {body.document_kind}; use another id"
        )
    return _refusal_of_version(state, body)


def _refusal_of_approval(
    state: PolicyState, body: ApprovedContent, entry: RegisterEntry
) -> str | None:
    draft = state.find(body)
    if draft is None:
        return f"{body.id}@{body.version} was not drafted with this content"
    if state.is_active(body):
        return None
    if (reason := _refusal_of_version(state, body)) is not None:
        return reason
    if state.two_person and entry.actor == draft.drafted_by:
        return (
            f"{entry.actor} drafted {body.id}@{body.version} and cannot approve it, "
            "because the two-person rule is on; another principal has to approve it"
        )
    return None


def _refusal_of_activation(
    state: PolicyState, body: ActivatedContent, _: RegisterEntry
) -> str | None:
    if state.is_active(body):
        return None
    if (reason := _refusal_of_version(state, body)) is not None:
        return reason
    draft = state.find(body)
    if draft is None or not draft.approvals:
        return f"{body.id}@{body.version} is not approved; approve it first"
    if state.two_person and draft.approvals.keys() <= {draft.drafted_by}:
        return (
            f"{body.id}@{body.version} is approved only by {draft.drafted_by}, who drafted it, "
            "and the two-person rule is on; another principal has to approve it"
        )
    if DraftedContent(**body.model_dump(include=_DRAFTED)) != draft.content:
        return "its kind, tenants or text are not those that were approved"
    return _refusal_of_tenants(state, body)


def _refusal_of_tenants(state: PolicyState, body: ActivatedContent) -> str | None:
    for policy in state.active.values():
        shared = set(policy.content.tenants) & set(body.tenants)
        same_kind = policy.content.document_kind == body.document_kind
        if policy.content.id != body.id and same_kind and shared:
            names = ", ".join(sorted(shared))
            return (
                f"the active policy {policy.name} names the same tenants ({names}); "
                "name a tenant in one policy only"
            )
    return None


def _refusal_of_version(state: PolicyState, body: ApprovedContent) -> str | None:
    """Return why a version cannot get, or be decided with, this content."""
    active = state.active.get(body.id)
    if active is not None and body.version < active.content.version:
        return (
            f"{active.name} is active, and versions only rise; "
            f"use version {state.next_version(body.id)} or a higher one"
        )
    decided = {
        each.content.hash for each in state.contents(body.id, body.version) if each.approvals
    }
    if decided - {body.hash}:
        word = "active" if active and body.version == active.content.version else "approved"
        return (
            f"{body.id}@{body.version} is {word} with other content; "
            f"use version {state.next_version(body.id)} or a higher one"
        )
    return None


_RULES: Final[Mapping[str, Callable[[PolicyState, Any, RegisterEntry], str | None]]] = {
    "policy_drafted": _refusal_of_draft,
    "policy_approved": _refusal_of_approval,
    "policy_activated": _refusal_of_activation,
    "policy_settings": _refusal_of_setting,
}
