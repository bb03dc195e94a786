"""Policies, versions and decisions as people and programs see them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from atdp.access import BODIES, ApprovedContent, DraftedContent, DraftState, PolicyDraft, PolicyLog
from atdp.governance.desk.policy_scope import PolicyScope
from atdp.runtime import RegisterEntry

_ACTIONS: Final = {
    "policy_drafted": "drafted",
    "policy_approved": "approved",
    "policy_activated": "activated",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class PolicySummary:
    """A policy: its active version, and its last draft. None: there is none."""

    id: str
    kind: str
    tenants: Sequence[str]
    """Of the active version, else of the last draft."""
    active_version: int | None
    active_hash: str | None
    active_since: datetime | None
    last_version: int
    last_state: DraftState


@dataclass(frozen=True, kw_only=True, slots=True)
class PolicyVersionDetails:
    """One content of one version."""

    id: str
    version: int
    hash: str
    kind: str
    tenants: Sequence[str]
    state: DraftState
    drafted_by: str
    drafted_at: datetime
    approved_by: Sequence[str]
    activated_at: datetime | None
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class DecisionLine:
    """One decision of the history. `refused` is the reason why it has no effect; empty: it has."""

    at: datetime
    actor: str
    decision: str
    version: int
    hash: str
    refused: str = ""


def summaries(log: PolicyLog, scope: PolicyScope) -> Iterator[PolicySummary]:
    """Yield the policies that the caller may see, by id."""
    for policy_id in log.ids():
        drafts = [each for each in log.drafts(policy_id) if scope.may_see(each.content.tenants)]
        if not drafts:
            continue
        active = next((each for each in drafts if log.state_of(each) == "active"), None)
        last = drafts[-1]
        shown = (active or last).content
        yield PolicySummary(
            id=policy_id,
            kind=shown.document_kind,
            tenants=shown.tenants,
            active_version=None if active is None else active.content.version,
            active_hash=None if active is None else active.content.hash,
            active_since=None if active is None else active.activated_at,
            last_version=last.content.version,
            last_state=log.state_of(last),
        )


def details(log: PolicyLog, draft: PolicyDraft) -> PolicyVersionDetails:
    """Return what is known about a content."""
    content = draft.content
    return PolicyVersionDetails(
        id=content.id,
        version=content.version,
        hash=content.hash,
        kind=content.document_kind,
        tenants=content.tenants,
        state=log.state_of(draft),
        drafted_by=draft.drafted_by,
        drafted_at=draft.drafted_at,
        approved_by=tuple(draft.approvals),
        activated_at=draft.activated_at,
        text=content.text,
    )


def history(log: PolicyLog, scope: PolicyScope, policy_id: str) -> Sequence[DecisionLine]:
    """Return the decisions about a policy that the caller may see, refused ones among them."""
    entries = [(entry, "") for entry in log.accepted]
    entries += [(each.entry, each.reason) for each in log.refused]
    lines = []
    for entry, reason in sorted(entries, key=lambda pair: pair[0].offset):
        body = _body(entry)
        if body is None or body.id != policy_id or not _may_see(log, scope, body):
            continue
        lines.append(
            DecisionLine(
                at=entry.recorded_at,
                actor=entry.actor,
                decision=_ACTIONS[entry.kind],
                version=body.version,
                hash=body.hash,
                refused=reason,
            )
        )
    return lines


def _body(entry: RegisterEntry) -> ApprovedContent | None:
    """Return the body of a decision about a version; None for others and those of no known form."""
    if entry.kind not in _ACTIONS:
        return None
    try:
        body = BODIES[entry.kind].model_validate(entry.body)
    except ValueError:
        return None
    return body if isinstance(body, ApprovedContent) else None


def _may_see(log: PolicyLog, scope: PolicyScope, body: ApprovedContent) -> bool:
    if isinstance(body, DraftedContent):
        return scope.may_see(body.tenants)
    draft = log.find(body)
    return draft is not None and scope.may_see(draft.content.tenants)
