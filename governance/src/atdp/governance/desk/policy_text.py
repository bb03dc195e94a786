"""The text of a policy with another version: the identity changes, everything else stays."""

import json
from collections.abc import Iterator
from typing import Final

import yaml

from atdp.governance.errors import PolicyError
from atdp.governance.policy.document import PolicyDocument, parse_policy

MOST_CHARACTERS: Final = 500_000
"""Longest text of a policy. An entry of the register holds it once, and has at most 2 MiB."""


def read_document(text: str, *, where: str) -> PolicyDocument:
    """Return the policy of a text.

    Raises:
        PolicyError: the text is too long or no policy. The message names line and column.
    """
    if len(text) > MOST_CHARACTERS:
        raise PolicyError(f"{where}: longer than {MOST_CHARACTERS} characters")
    document = parse_policy(text, where=where)
    if not isinstance(document, PolicyDocument):
        raise PolicyError(f"{where} is of kind {document.kind}, which is no policy")
    return document


def with_version(text: str, *, version: int, reason: str, where: str) -> str:
    """Return the text with this version and reason in its metadata; comments are kept.

    Raises:
        PolicyError: the text is no policy, or its metadata is not written as plain values.
    """
    before = read_document(text, where=where)
    changed = text
    for start, end, new in sorted(_edits(text, version, reason), reverse=True):
        changed = changed[:start] + new + changed[end:]
    after = read_document(changed, where=where)
    if _rules(before) != _rules(after) or after.metadata.version != version:
        raise PolicyError(
            f"{where}: the version cannot be replaced; write metadata.version and metadata.reason "
            "as plain values, or draft the earlier content by hand"
        )
    return changed


def _edits(text: str, version: int, reason: str) -> Iterator[tuple[int, int, str]]:
    """Yield start, end and new text of the values of `metadata` that change."""
    document = yaml.compose(text, Loader=yaml.SafeLoader)
    assert isinstance(document, yaml.MappingNode)  # the text has been read as a policy
    for key, value in document.value:
        if key.value != "metadata":
            continue
        for name, node in value.value:
            if name.value == "version":
                yield node.start_mark.index, node.end_mark.index, str(version)
            elif name.value == "reason":
                old = text[node.start_mark.index : node.end_mark.index]
                # The end of a block of lines is the start of the next key.
                ending = old[len(old.rstrip()) :]
                yield node.start_mark.index, node.end_mark.index, json.dumps(reason) + ending


def _rules(document: PolicyDocument) -> object:
    return document.model_dump(exclude={"metadata"}), document.metadata.id
