"""The policies of a register: a fold over its entries that is the same for every reader.

The rules hold in the order of the log, so that races between two writers end the same everywhere:

- Versions of a policy only rise. A version that was approved or activated never gets other content.
- An activation needs an approval of exactly its content. With the two-person rule, the approval is
  by another principal than the one who first drafted that content.
- At most one active policy of a kind names a tenant. `*` stands for the tenants that none names.
- An entry that repeats an earlier one changes nothing. A setting that is not newer than the last
  one is refused, so that nobody can bring an old one back by writing its signed entry again.

The fold does no I/O and never raises. An entry that breaks a rule has no effect and is listed in
`refused`. Entries about other things than policies are passed over.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal, TypeAlias

from pydantic import ValidationError

from atdp.governance.desk.policy_entries import (
    BODIES,
    REDACTION,
    ActivatedContent,
    ApprovedContent,
    DocumentKind,
    DraftedContent,
    PolicySettings,
)
from atdp.runtime import ANY_TENANT, RegisterEntry

_DRAFTED: Final = set(DraftedContent.model_fields)
DraftState: TypeAlias = Literal["drafted", "approved", "active", "replaced", "passed over"]


@dataclass(frozen=True, kw_only=True, slots=True)
class RefusedEntry:
    """An entry that has no effect, and the reason."""

    entry: RegisterEntry
    reason: str

    @property
    def offset(self) -> int:
        """Position of the entry in the log."""
        return self.entry.offset


@dataclass(kw_only=True, slots=True)
class PolicyDraft:
    """A content of a version, who drafted it first, and who approved it when."""

    content: DraftedContent
    drafted_by: str
    drafted_at: datetime
    approvals: dict[str, datetime] = field(default_factory=dict)
    activated_at: datetime | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ActivePolicy:
    """The content that applies, since when and by whose decision."""

    content: ActivatedContent
    activated_by: str
    activated_at: datetime
    offset: int

    @property
    def name(self) -> str:
        """Id and version, as `acme@3`."""
        return f"{self.content.id}@{self.content.version}"


class PolicyLog:
    """The state of all policies after the entries that were applied."""

    def __init__(self) -> None:
        self.two_person = False
        self.offset = -1
        """Position of the last entry that was applied."""
        self.active: dict[str, ActivePolicy] = {}
        """The active version of each policy, by id."""
        self.refused: list[RefusedEntry] = []
        self.accepted: list[RegisterEntry] = []
        """The entries that had an effect, in the order of the log."""
        self._drafts: dict[str, dict[int, dict[str, PolicyDraft]]] = {}
        self.set_at: datetime | None = None
        """Time of the last setting; a later one has to be newer."""

    def apply(self, entry: RegisterEntry) -> None:
        """Take the next entry of the log."""
        self.offset = max(self.offset, entry.offset)
        if entry.kind not in BODIES:
            return
        reason = self.refusal(entry)
        if reason is not None:
            self.refused.append(RefusedEntry(entry=entry, reason=reason))
        elif self._take(entry, BODIES[entry.kind].model_validate(entry.body)):
            self.accepted.append(entry)

    def refusal(self, entry: RegisterEntry) -> str | None:
        """Return the reason why this entry would be refused as the next one; None: it would not."""
        try:
            body = BODIES[entry.kind].model_validate(entry.body)
        except (KeyError, ValidationError):
            return "the entry does not have the form of its kind"
        return _RULES[entry.kind](self, body, entry)

    def active_for(
        self, tenant: str, document_kind: DocumentKind = REDACTION
    ) -> ActivePolicy | None:
        """Return the policy that names the tenant, else the one for all others, else None."""
        by_tenant = self.by_tenant(document_kind)
        return by_tenant.get(tenant) or by_tenant.get(ANY_TENANT)

    def by_tenant(self, document_kind: DocumentKind = REDACTION) -> Mapping[str, ActivePolicy]:
        """Return the active policies of a kind by the tenants that they name."""
        return {
            tenant: policy
            for policy in self.active.values()
            if policy.content.document_kind == document_kind
            for tenant in policy.content.tenants
        }

    def ids(self) -> Sequence[str]:
        """Return the ids of all policies, sorted."""
        return sorted(self._drafts)

    def drafts(self, policy_id: str) -> Sequence[PolicyDraft]:
        """Return all contents of a policy, by version and then in the order of the log."""
        versions = self._drafts.get(policy_id, {})
        return [draft for _, contents in sorted(versions.items()) for draft in contents.values()]

    def contents(self, policy_id: str, version: int) -> Sequence[PolicyDraft]:
        """Return the contents of a version in the order of the log; an approved one is the last."""
        contents = self._drafts.get(policy_id, {}).get(version, {}).values()
        return sorted(contents, key=lambda draft: bool(draft.approvals))

    def state_of(self, draft: PolicyDraft) -> DraftState:
        """Return how far a content has come."""
        active = self.active.get(draft.content.id)
        if active is not None and active.content.version == draft.content.version:
            return "active" if active.content.hash == draft.content.hash else "passed over"
        if draft.activated_at is not None:
            return "replaced"
        if active is not None and draft.content.version < active.content.version:
            return "passed over"
        return "approved" if draft.approvals else "drafted"

    def _take(self, entry: RegisterEntry, body: Any) -> bool:
        """Take an entry that is not refused; return whether it changed anything."""
        if isinstance(body, PolicySettings):
            self.two_person, self.set_at = body.two_person, entry.recorded_at
            return True
        draft = self.find(body)
        if isinstance(body, ActivatedContent):
            assert draft is not None  # `refusal` has checked it
            return self._activate(draft, body, entry)
        if isinstance(body, DraftedContent):
            if draft is None:
                contents = self._drafts.setdefault(body.id, {}).setdefault(body.version, {})
                contents[body.hash] = PolicyDraft(
                    content=body, drafted_by=entry.actor, drafted_at=entry.recorded_at
                )
            return draft is None
        assert draft is not None  # `refusal` has checked it
        if entry.actor in draft.approvals:
            return False
        draft.approvals[entry.actor] = entry.recorded_at
        return True

    def _activate(self, draft: PolicyDraft, body: ActivatedContent, entry: RegisterEntry) -> bool:
        if draft.activated_at is not None:
            return False
        draft.activated_at = entry.recorded_at
        self.active[body.id] = ActivePolicy(
            content=body,
            activated_by=entry.actor,
            activated_at=entry.recorded_at,
            offset=entry.offset,
        )
        return True

    def find(self, body: ApprovedContent) -> PolicyDraft | None:
        """Return the draft of exactly this content; None when it was not drafted."""
        return self._drafts.get(body.id, {}).get(body.version, {}).get(body.hash)

    def _refusal_of_setting(self, _: PolicySettings, entry: RegisterEntry) -> str | None:
        if self.set_at is not None and entry.recorded_at <= self.set_at:
            return "a newer setting is in the register"
        return None

    def _refusal_of_draft(self, body: DraftedContent, _: RegisterEntry) -> str | None:
        if self.find(body) is not None:
            return None
        kinds = {draft.content.document_kind for draft in self.drafts(body.id)}
        if kinds and body.document_kind not in kinds:
            return (
                f"{body.id} is a policy of kind {kinds.pop()}, not {body.document_kind}; "
                "use another id"
            )
        return self._refusal_of_version(body)

    def _refusal_of_approval(self, body: ApprovedContent, entry: RegisterEntry) -> str | None:
        draft = self.find(body)
        if draft is None:
            return f"{body.id}@{body.version} was not drafted with this content"
        if self._is_active(body):
            return None
        if (reason := self._refusal_of_version(body)) is not None:
            return reason
        if self.two_person and entry.actor == draft.drafted_by:
            return (
                f"{entry.actor} drafted {body.id}@{body.version} and cannot approve it, "
                "because the two-person rule is on; another principal has to approve it"
            )
        return None

    def _refusal_of_activation(self, body: ActivatedContent, _: RegisterEntry) -> str | None:
        if self._is_active(body):
            return None
        if (reason := self._refusal_of_version(body)) is not None:
            return reason
        draft = self.find(body)
        if draft is None or not draft.approvals:
            return f"{body.id}@{body.version} is not approved; approve it first"
        if self.two_person and draft.approvals.keys() <= {draft.drafted_by}:
            return (
                f"{body.id}@{body.version} is approved only by {draft.drafted_by}, who drafted it, "
                "and the two-person rule is on; another principal has to approve it"
            )
        if DraftedContent(**body.model_dump(include=_DRAFTED)) != draft.content:
            return "its kind, tenants or text are not those that were approved"
        for policy in self.active.values():
            shared = set(policy.content.tenants) & set(body.tenants)
            same_kind = policy.content.document_kind == body.document_kind
            if policy.content.id != body.id and same_kind and shared:
                return (
                    f"the active policy {policy.name} names {_tenants(shared)}, too; "
                    "name a tenant in one policy only"
                )
        return None

    def _refusal_of_version(self, body: ApprovedContent) -> str | None:
        """Return why a version cannot get, or be decided with, this content."""
        active = self.active.get(body.id)
        if active is not None and body.version < active.content.version:
            return (
                f"{active.name} is active, and versions only rise; "
                f"use version {active.content.version + 1} or a higher one"
            )
        decided = {
            draft.content.hash
            for draft in self._drafts.get(body.id, {}).get(body.version, {}).values()
            if draft.approvals
        }
        if decided - {body.hash}:
            word = "active" if active and body.version == active.content.version else "approved"
            return (
                f"{body.id}@{body.version} is {word} with other content; "
                f"use version {self.next_version(body.id)} or a higher one"
            )
        return None

    def next_version(self, policy_id: str) -> int:
        """Return the lowest version that is above all that were approved or activated."""
        decided = (d.content.version for d in self.drafts(policy_id) if d.approvals)
        return max(decided, default=0) + 1

    def _is_active(self, body: ApprovedContent) -> bool:
        active = self.active.get(body.id)
        return active is not None and (active.content.version, active.content.hash) == (
            body.version,
            body.hash,
        )


_RULES: Final[Mapping[str, Callable[[PolicyLog, Any, RegisterEntry], str | None]]] = {
    "policy_drafted": PolicyLog._refusal_of_draft,
    "policy_approved": PolicyLog._refusal_of_approval,
    "policy_activated": PolicyLog._refusal_of_activation,
    "policy_settings": PolicyLog._refusal_of_setting,
}


def _tenants(names: set[str]) -> str:
    shown = ", ".join(sorted(names))
    return f"the tenant{'s' if len(names) > 1 else ''} {shown}"
