"""The text of a policy with its parsed document; the same text with another version."""

import json
from dataclasses import dataclass
from typing import Final, Self

from atdp.access import (
    AccessPolicyDocument,
    AccessPolicyError,
    ActivatedContent,
    DraftedContent,
    parse_access_policy,
)
from atdp.governance.desk.yaml_edits import replace_values
from atdp.governance.errors import PolicyError
from atdp.governance.policy.document import PolicyDocument, parse_policy
from atdp.runtime import DocumentError, YamlDocument

MOST_CHARACTERS: Final = 500_000
"""Longest text of a policy. An entry of the register holds it once, and has at most 2 MiB."""


@dataclass(frozen=True, slots=True)
class PolicyText:
    """A policy as it was written, and as it is read. `where` names it in messages."""

    text: str
    document: PolicyDocument | AccessPolicyDocument
    where: str

    @classmethod
    def parse(cls, text: str, *, where: str) -> Self:
        """Return the policy of a text.

        Raises:
            PolicyError: the text is too long or no policy. The message names line and column.
        """
        if len(text) > MOST_CHARACTERS:
            raise PolicyError(f"{where}: longer than {MOST_CHARACTERS} characters")
        return cls(text, _parsed(text, where), where)

    @property
    def content(self) -> DraftedContent:
        """The body of its draft."""
        metadata = self.document.metadata
        return DraftedContent(
            id=metadata.id,
            version=metadata.version,
            hash=self.document.content_hash,
            document_kind=self.document.kind,
            tenants=tuple(self.document.applies_to.tenants),
            text=self.text,
        )

    def activation(self, approved: DraftedContent, reason: str) -> ActivatedContent:
        """Return the body of the activation of this policy as it was approved."""
        retention = getattr(self.document, "retention", {})  # access policies have none
        return ActivatedContent(
            **approved.model_dump(),
            retention=retention,
            reason=reason or self.document.metadata.reason,
        )

    def with_version(self, version: int, *, reason: str) -> "PolicyText":
        """Return the policy with this version and reason in its metadata; comments are kept.

        Raises:
            PolicyError: its metadata is not written as plain values.
        """
        changed = replace_values(
            self.text,
            {
                ("metadata", "version"): str(version),
                ("metadata", "reason"): json.dumps(reason),
            },
        )
        metadata = self.document.metadata
        try:
            after = PolicyText.parse(changed, where=f"{metadata.id}@{version}")
        except PolicyError:
            after = self
        if after.document.metadata.version != version or _rules(after) != _rules(self):
            raise PolicyError(
                f"{self.where}: its version cannot be replaced; draft the earlier content by hand, "
                f"with `version: {version}`"
            )
        return after


def is_access_policy(text: str) -> bool:
    """Return whether a text is YAML of the kind AccessPolicy."""
    try:
        value = YamlDocument.parse(text, where="policy").value
    except DocumentError:
        return False
    return isinstance(value, dict) and value.get("kind") == "AccessPolicy"


def _parsed(text: str, where: str) -> PolicyDocument | AccessPolicyDocument:
    if is_access_policy(text):
        try:
            return parse_access_policy(text, where=where)
        except AccessPolicyError as error:
            raise PolicyError(f"not a usable policy: {error}") from error
    document = parse_policy(text, where=where)
    if not isinstance(document, PolicyDocument):
        raise PolicyError(f"{where} is of kind {document.kind}, which is no policy")
    return document


def _rules(text: PolicyText) -> object:
    return text.document.model_dump(exclude={"metadata"}), text.document.metadata.id
