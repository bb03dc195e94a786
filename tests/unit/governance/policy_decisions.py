"""Entries of the register about policies, for the tests of the fold and of the desk."""

from datetime import UTC, datetime, timedelta

from atdp.access import (
    ActivatedContent,
    ApprovedContent,
    DocumentKind,
    DraftedContent,
    PolicyBody,
    PolicyLog,
    PolicySettings,
    policy_entry,
)
from atdp.runtime import RegisterEntry

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)
ANN, BOB = "key:ann", "key:bob"


class DecisionSequence:
    """Entries that follow one another in a log, and the fold over them."""

    def __init__(self) -> None:
        self.log = PolicyLog()
        self.entries: list[RegisterEntry] = []

    def add(self, body: PolicyBody, actor: str) -> RegisterEntry:
        number = len(self.entries)
        entry = policy_entry(body, actor=actor, recorded_at=NOON + timedelta(seconds=number))
        return self.replay(entry.at(number))

    def replay(self, entry: RegisterEntry) -> RegisterEntry:
        entry = entry.at(len(self.entries))
        self.entries.append(entry)
        self.log.apply(entry)
        return entry

    def draft(self, content: DraftedContent, actor: str = ANN) -> RegisterEntry:
        return self.add(content, actor)

    def approve(self, content: DraftedContent, actor: str = ANN) -> RegisterEntry:
        return self.add(
            ApprovedContent(id=content.id, version=content.version, hash=content.hash), actor
        )

    def activate(self, content: DraftedContent, actor: str = ANN) -> RegisterEntry:
        return self.add(ActivatedContent(**content.model_dump()), actor)

    def two_person(self, on: bool, actor: str = ANN) -> RegisterEntry:
        return self.add(PolicySettings(two_person=on), actor)

    def whole(self, content: DraftedContent, actor: str = ANN) -> RegisterEntry:
        """Draft, approve and activate."""
        self.draft(content, actor)
        self.approve(content, actor)
        return self.activate(content, actor)

    def refusal(self, entry: RegisterEntry) -> str:
        """Return why an entry has no effect; empty when it has one or repeats an earlier one."""
        return next((each.reason for each in self.log.refused if each.entry is entry), "")


def content(
    version: int = 1,
    *,
    policy: str = "acme",
    text: str = "rules",
    tenants: tuple[str, ...] = ("acme",),
    kind: DocumentKind = "GovernancePolicy",
) -> DraftedContent:
    return DraftedContent(
        id=policy,
        version=version,
        hash=f"hash of {text} {version}",
        document_kind=kind,
        tenants=tenants,
        text=text,
    )
