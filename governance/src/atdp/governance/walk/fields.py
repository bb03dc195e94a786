"""What the strings of an event are, read from the Avro schema.

Every string field is scanned. The few that are structure must look like it: a field listed here is
left alone only while its content has the form that the list demands (a UUID, a hex digest);
anything else in it is treated as an identifier like the others. A field that a later schema version
adds is not listed, so it is scanned as free text, the strictest way there is.
"""

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from atdp.governance.event_paths import event_paths


class FieldClass(Enum):
    """How a string field is governed."""

    TEXT = "text"
    """Scanned; when it is JSON, its decoded leaves and keys are."""
    IDENTIFIER = "identifier"
    """A UUID; else scanned, and findings become pseudonyms that are the same throughout the tenant,
    so that joins still work."""
    DIGEST = "digest"
    """A hex digest; else an identifier."""
    CONTEXT_DIGEST = "context_digest"
    """Digest of text that may hold what was redacted: whoever has the rest of the text could guess
    it. Written again under the tenant's key."""
    SUBJECT = "subject"
    """Names a person by definition: always a pseudonym."""
    OURS = "ours"
    """Written by the gate itself after the walk, or checked before it."""


FIELDS: Mapping[str, FieldClass] = {
    # Checked against the producer's key before the walk.
    "tenant_id": FieldClass.OURS,
    # The stamp: set by the gate, whatever the producer wrote there.
    "governance.policy_id": FieldClass.OURS,
    "governance.policy_hash": FieldClass.OURS,
    "governance.findings.path": FieldClass.OURS,
    "governance.findings.entity": FieldClass.OURS,
    "governance.findings.operator": FieldClass.OURS,
    "governance.eligibility_reason": FieldClass.OURS,
    "governance.purposes": FieldClass.OURS,
    "governance.data_subjects": FieldClass.SUBJECT,
    "event_id": FieldClass.IDENTIFIER,
    "caused_by": FieldClass.IDENTIFIER,
    "spawned_by": FieldClass.IDENTIFIER,
    "reward.target_event_id": FieldClass.IDENTIFIER,
    "reward.supersedes": FieldClass.IDENTIFIER,
    "feedback.target_event_id": FieldClass.IDENTIFIER,
    "annotation.target_event_id": FieldClass.IDENTIFIER,
    "observation.context_hash": FieldClass.CONTEXT_DIGEST,
    "observation.tools_hash": FieldClass.DIGEST,
    "action.generation.tokenizer_hash": FieldClass.DIGEST,
    "action.generation.template_hash": FieldClass.DIGEST,
    "trajectory_id": FieldClass.IDENTIFIER,
    "producer_id": FieldClass.IDENTIFIER,
    "session_id": FieldClass.IDENTIFIER,
    "task_id": FieldClass.IDENTIFIER,
    "parent_trajectory_id": FieldClass.IDENTIFIER,
    "agent.id": FieldClass.IDENTIFIER,
    "action.handoff.trajectory_id": FieldClass.IDENTIFIER,
    "action.generation.request_id": FieldClass.IDENTIFIER,
}
"""By path without indexes. Paths that end in `call_id` or `sha256` are identifiers and digests
wherever they occur (see `class_of`)."""

_BY_LAST_NAME: Mapping[str, FieldClass] = {
    "call_id": FieldClass.IDENTIFIER,
    "sha256": FieldClass.DIGEST,
}

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_DIGEST = re.compile(r"(?:sha256[:-])?(?:[0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{64})")
KEYED_DIGEST = re.compile(r"keyed:[0-9a-f]{64}")


def class_of(path: str) -> FieldClass:
    """The class of the string field at `path` (no indexes)."""
    return FIELDS.get(path) or _BY_LAST_NAME.get(path.rpartition(".")[2], FieldClass.TEXT)


def is_uuid(text: str) -> bool:
    """Whether the text is a UUID in canonical lower-case form."""
    return _UUID.fullmatch(text) is not None


def is_digest(text: str) -> bool:
    """Whether the text is an MD5, SHA-1 or SHA-256 in hex.

    A digest has letters: 32 digits in a row would be a number.
    """
    return _DIGEST.fullmatch(text) is not None and not text.isdecimal()


@dataclass(frozen=True, slots=True)
class Place:
    """What is known of the strings at one path.

    `shown`: the path as findings name it, with `[*]` for lists.
    """

    shown: str
    kind: FieldClass
    scanned: bool
    required: bool


@functools.cache
def place_of(path: str) -> Place:
    """The place at `path` (no indexes); one that the schema does not have is scanned as text."""
    leaf = event_paths().get(path)
    kind = class_of(path)
    if leaf is None:
        return Place(f"$.{path}", kind, scanned=kind is not FieldClass.OURS, required=False)
    scanned = leaf.kind != "enum" and kind is not FieldClass.OURS
    return Place(f"$.{leaf.shown}", kind, scanned, required=leaf.empty == "")


@functools.cache
def enum_fields() -> frozenset[str]:
    """Paths whose values the schema itself limits to a few words; they hold no text."""
    return frozenset(path for path, leaf in event_paths().items() if leaf.kind == "enum")
