"""Governs strings under one policy and one tenant's key, with a cache of results.

Agents send the same system prompts and tool results again and again, so results are cached by a
keyed hash of (string, scope, class). The cache holds governed text only. All tenants share one
cache with one bound in bytes; each tenant has a hash key of its own.
"""

import hashlib
import os
import sys
from dataclasses import dataclass
from typing import Final

from atdp.governance.byte_lru import ByteLru
from atdp.governance.errors import Refusal
from atdp.governance.policy.compiled import CompiledPolicy
from atdp.governance.redact.pseudonyms import TenantKey, is_pseudonym
from atdp.governance.replacements import Replacement
from atdp.governance.scanned_text import utf8
from atdp.governance.walk.string_fields import is_uuid
from atdp.governance.walk.string_walk import StringWalk

CACHE_BYTES: Final = 128 * 1024 * 1024
"""Bound of the cache of governed text in one worker, all tenants together."""
_REPLACEMENT_BYTES: Final = 150
"""Approximate size of one cached `Replacement` without its path."""
_IDENTIFIER_CHARS: Final = 1_000
"""Longest identifier. Identifiers are keys of Kafka records, where longer ones would not fit."""


@dataclass(frozen=True, slots=True)
class GovernedString:
    """A governed string. `text` is None when the policy removes it."""

    text: str | None
    replacements: tuple[Replacement, ...]


class StringGovernor:
    """Governs strings under one policy and one tenant's key. Not thread-safe."""

    def __init__(
        self, policy: CompiledPolicy, key: TenantKey, cache: ByteLru[GovernedString] | None = None
    ) -> None:
        """`cache` may be shared with other tenants; by default the governor has its own."""
        self._policy = policy
        self._key = key
        self._depends_on_trajectory = any(
            operator.scope == "trajectory" for operator in policy.operators.values()
        )
        self._cache = ByteLru[GovernedString](CACHE_BYTES) if cache is None else cache
        self._cache_key = os.urandom(16)

    def text(self, text: str, trajectory: str) -> GovernedString:
        """Govern a string of any form.

        Raises:
            Refusal, EventDropped: the event must not pass, or the policy drops it.
        """
        return self._govern(text, trajectory, identifier=False)

    def identifier(self, text: str) -> GovernedString:
        """Govern an identifier, which other events repeat.

        Detected values become pseudonyms of tenant scope, whatever their operator is. A UUID is
        left alone.

        Raises:
            Refusal: see `text`; or the identifier is longer than a record key may be.
        """
        if is_uuid(text):
            return GovernedString(text, ())
        if len(text) > _IDENTIFIER_CHARS:
            raise Refusal(
                "identifier_too_long", f"an identifier has more than {_IDENTIFIER_CHARS} characters"
            )
        return self._govern(text, "", identifier=True)

    def pseudonym(self, entity: str, text: str) -> str:
        """Return the tenant-wide pseudonym of a string; a pseudonym is returned as it is."""
        return text if is_pseudonym(text) else self._key.pseudonym(entity, text)

    def _govern(self, text: str, trajectory: str, *, identifier: bool) -> GovernedString:
        if not text:
            return GovernedString(text, ())
        encoded = utf8(text)
        digest = hashlib.blake2b(
            b"%d\x1f%d\x1f" % (identifier, len(encoded)), digest_size=16, key=self._cache_key
        )
        digest.update(encoded)
        if self._depends_on_trajectory:
            digest.update(trajectory.encode("utf-8", "surrogatepass"))
        cache_key = digest.digest()
        cached = self._cache.get(cache_key)
        if cached is not None:
            return cached
        walk = StringWalk(self._policy, self._key, trajectory, identifier=identifier)
        governed = GovernedString(*walk.run(text))
        size_bytes = sys.getsizeof(governed.text) + sum(
            _REPLACEMENT_BYTES + sys.getsizeof(each.path) for each in governed.replacements
        )
        self._cache.put(cache_key, governed, size_bytes)
        return governed
