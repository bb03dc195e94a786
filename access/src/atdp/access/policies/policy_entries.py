"""The entries of the register that are about policies, and the form of their bodies.

Every entry has a key of its own, which ends with a random id. The topic is compacted, so a second
entry of the same key would remove the first one, and a fold that no longer sees an approval, a
refused activation or an earlier setting could come to another result than the readers before it.
"""

import uuid
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from atdp.runtime import RegisterEntry

DocumentKind: TypeAlias = Literal["GovernancePolicy", "AccessPolicy"]
REDACTION: Final[DocumentKind] = "GovernancePolicy"


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ApprovedContent(_Body):
    """Identity of one content of one version. Body of `policy_approved`."""

    id: Annotated[str, Field(min_length=1)]
    version: Annotated[int, Field(ge=1, strict=True)]
    hash: Annotated[str, Field(min_length=1)]


class DraftedContent(ApprovedContent):
    """A version with its text. Body of `policy_drafted`."""

    document_kind: DocumentKind
    tenants: Annotated[tuple[str, ...], Field(min_length=1)]
    text: str


class ActivatedContent(DraftedContent):
    """A version that applies to its tenants. Body of `policy_activated`.

    `retention`: days for which events may be used, by retention class.
    """

    retention: Mapping[str, float] = {}
    reason: str = ""


class PolicySettings(_Body):
    """Settings of the desk. Body of `policy_settings`.

    With `two_person`, whoever drafted a content cannot approve it.
    """

    two_person: Annotated[bool, Field(strict=True)]


PolicyBody: TypeAlias = DraftedContent | ApprovedContent | ActivatedContent | PolicySettings
BODIES: Final[Mapping[str, type[_Body]]] = {
    "policy_drafted": DraftedContent,
    "policy_approved": ApprovedContent,
    "policy_activated": ActivatedContent,
    "policy_settings": PolicySettings,
}
"""The class of the body, by kind of the entry."""
_KINDS: Final = {body: kind for kind, body in BODIES.items()}


def policy_entry(body: PolicyBody, *, actor: str, recorded_at: datetime) -> RegisterEntry:
    """Return the entry with this body, not yet written."""
    about = "settings"
    if isinstance(body, ApprovedContent):
        about = f"{body.id}/{body.version}/{body.hash}"
    return RegisterEntry(
        kind=_KINDS[type(body)],
        key=f"{about}/{uuid.uuid4().hex}",
        body=body.model_dump(mode="json"),
        actor=actor,
        recorded_at=recorded_at,
    )
