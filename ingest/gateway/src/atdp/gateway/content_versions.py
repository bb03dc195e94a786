"""Versions of prompt and tools by their content, where nobody names them.

The prompt of a call is its system messages. Its version is a keyed hash (HMAC-SHA-256 with a secret
of the home), because a plain hash would confirm a guess of what governance redacts in the prompt.
The version of the tools is the beginning of `observation.tools_hash`. Equal content has the same
version in all gateways of a home.
"""

import hashlib
import hmac
import json
from collections.abc import Sequence
from dataclasses import dataclass

from atdp.schemas import Message, Versions

_HEX_DIGITS = 16


@dataclass(frozen=True, kw_only=True, slots=True)
class StatedVersions:
    """Versions that a key or a session names; None where it names none."""

    harness: str | None = None
    prompt: str | None = None
    tools: str | None = None

    def over(self, other: "StatedVersions") -> "StatedVersions":
        """Return these versions, and those of `other` where there are none."""
        return StatedVersions(
            harness=self.harness or other.harness,
            prompt=self.prompt or other.prompt,
            tools=self.tools or other.tools,
        )


def versions_of_key(text: str | None) -> StatedVersions:
    """Return the versions that a key states, from their JSON."""
    return StatedVersions(**json.loads(text)) if text else StatedVersions()


def prompt_version(secret: bytes, system: Sequence[Message]) -> str | None:
    """Return the version of the system messages of a request; None without any."""
    texts = [message.text for message in system]
    if not texts:
        return None
    content = repr(texts).encode("utf-8", "surrogatepass")
    digest = hmac.new(secret, b"prompt\n" + content, hashlib.sha256).hexdigest()
    return f"prompt-{digest[:_HEX_DIGITS]}"


def call_versions(
    stated: StatedVersions, of_answer: Versions, *, prompt: str | None, tools_hash: str | None
) -> Versions:
    """Return the versions of a call: those that are stated, else those by content."""
    tools = None if tools_hash is None else f"tools-{tools_hash[:_HEX_DIGITS]}"
    return Versions(
        harness=stated.harness,
        prompt=stated.prompt or prompt,
        tools=stated.tools or tools,
        model=of_answer.model,
        weights=of_answer.weights,
    )
