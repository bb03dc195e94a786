"""One string of an event: decoded, scanned, redacted until nothing more is found, and written back.

A string that is JSON is decoded and its leaves and keys are governed one by one (to `json_depth`
strings within strings); any other is scanned as text, after those of its lines that are JSON
documents of their own (NDJSON, server-sent events). Key rules decide values by the name of their
key. Redaction repeats until the text is stable, because taking something away can bring together
what was apart; text that does not settle is refused.

Results are remembered by a keyed hash of (string, scope, class): agents send the same system
prompts and tool results over and over. The memory holds governed text only; all tenants share one,
within one bound of bytes, each under a hash key of its own.
"""

import hashlib
import os
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from atdp.governance.byte_lru import Memory
from atdp.governance.errors import Refusal
from atdp.governance.policy.compiled import CompiledPolicy
from atdp.governance.redact.operators import Operator
from atdp.governance.redact.pseudonyms import TenantKey, is_token
from atdp.governance.walk import json_text
from atdp.governance.walk.fields import is_uuid

_ROUNDS: Final = 4
_NESTING: Final = 200
"""Objects and arrays within one JSON text; deeper is refused before Python's own limit decides."""
_NUMBER_DIGITS: Final = 7
"""Numbers with at least so many digits before the point are scanned like text; smaller ones are
counts, amounts and measures."""
_WRITTEN_OUT: Final = 1e40
"""Beyond it a float's digits are noise, and no number of anything is so long."""
_IDENTIFIER_CHARS: Final = 1_000
"""Identifiers are keys of records and of audit entries; longer ones would not fit there."""
MEMORY_BYTES: Final = 128 * 1024 * 1024
"""Governed text that one gate remembers, of all tenants together."""
_FOUND_BYTES: Final = 150
_KEY_SHOWN: Final = 40
_TAIL = "[*]"


@dataclass(frozen=True, slots=True)
class Found:
    """What was replaced at one place; `path` is relative and holds governed keys only."""

    path: str
    entity: str
    operator: str
    count: int


@dataclass(frozen=True, slots=True)
class Governed:
    """A governed string; `text` is `None` when the policy removes it."""

    text: str | None
    found: tuple[Found, ...]


class _Dropped:
    """Marks a JSON value that the policy removes."""


_DROPPED: Final = _Dropped()


class StringGovernor:
    """Governs strings under one policy and one tenant's key. Not for several threads at once."""

    def __init__(
        self, policy: CompiledPolicy, key: TenantKey, memory: Memory[Governed] | None = None
    ) -> None:
        self._policy = policy
        self._key = key
        self._scoped = any(operator.scope == "trajectory" for operator in policy.operators.values())
        self._memory = Memory[Governed](MEMORY_BYTES) if memory is None else memory
        self._memory_key = os.urandom(16)

    def text(self, text: str, trajectory: str) -> Governed:
        """A string of any form.

        Raises:
            Refusal, EventDropped: the event must not pass, or not as it is.
        """
        return self._recalled(text, trajectory, identifier=False)

    def identifier(self, text: str) -> Governed:
        """A name that other events repeat: findings become pseudonyms of tenant scope, whatever their operator is. A UUID names nobody.

        Raises:
            Refusal: see `text`; or longer than a record key may be.
        """
        if is_uuid(text):
            return Governed(text, ())
        if len(text) > _IDENTIFIER_CHARS:
            raise Refusal(
                "identifier_too_long", f"an identifier has more than {_IDENTIFIER_CHARS} characters"
            )
        return self._recalled(text, "", identifier=True)

    def pseudonym(self, entity: str, text: str) -> str:
        """The tenant-wide pseudonym of a whole string; one that is a pseudonym already stays."""
        return text if is_token(text) else self._key.name(entity, text)

    def seal(self, purpose: str, text: str) -> str:
        """A keyed digest that stands for the text."""
        return self._key.seal(purpose, text)

    def _recalled(self, text: str, trajectory: str, *, identifier: bool) -> Governed:
        if not text:
            return Governed(text, ())
        try:
            encoded = text.encode()
        except UnicodeEncodeError as error:
            raise Refusal("lone_surrogate", "a string holds half of a surrogate pair") from error
        digest = hashlib.blake2b(
            b"%d\x1f%d\x1f" % (identifier, len(encoded)), digest_size=16, key=self._memory_key
        )
        digest.update(encoded)
        if self._scoped:
            digest.update(trajectory.encode("utf-8", "surrogatepass"))
        at = digest.digest()
        known = self._memory.get(at)
        if known is not None:
            return known
        walk = _Walk(self._policy, self._key, trajectory, identifier=identifier)
        result = walk.run(text)
        held = sys.getsizeof(result.text) + sum(
            _FOUND_BYTES + sys.getsizeof(one.path) for one in result.found
        )
        self._memory.put(at, result, held)
        return result


class _Walk:
    """The walk through one top-level string."""

    def __init__(
        self, policy: CompiledPolicy, key: TenantKey, trajectory: str, *, identifier: bool
    ) -> None:
        self._policy = policy
        self._scan = policy.scanner.scan
        self._key = key
        self._trajectory = trajectory
        self._identifier = identifier
        self._counts: Counter[tuple[str, str, str]] = Counter()

    def run(self, text: str) -> Governed:
        limit = self._policy.document.limits.leaf_chars
        if len(text) > limit:
            raise Refusal("leaf_too_long", f"one string has more than {limit} characters")
        governed = self._string(text, "", "", 0)
        found = tuple(
            Found(path, entity, operator, count)
            for (path, entity, operator), count in sorted(self._counts.items())
        )
        return Governed(governed, found)

    def _string(self, text: str, path: str, key: str, depth: int) -> str | None:
        parsed = json_text.parse(text)
        if parsed is None:
            return self._plain(self._by_lines(text, path, depth), path, key)
        if depth >= self._policy.document.limits.json_depth:
            raise Refusal("json_depth", f"JSON is nested more than {depth} strings deep")
        value = self._value(parsed.value, path + "#", key, depth + 1, 0)
        if value is parsed.value and not parsed.lossy:
            return text
        return None if isinstance(value, _Dropped) else json_text.write(value, text)

    def _by_lines(self, text: str, path: str, depth: int) -> str:
        """Lines that are JSON documents of their own, governed as such.

        The whole is scanned as text afterwards: values may span lines.
        """
        rows = json_text.lines(text)
        if rows is None:
            return text
        pieces: list[str] = []
        for before, row, after in rows:
            parsed = json_text.parse(row) if row else None
            if parsed is not None:
                if depth >= self._policy.document.limits.json_depth:
                    raise Refusal("json_depth", f"JSON is nested more than {depth} strings deep")
                value = self._value(parsed.value, path + "#", "", depth + 1, 0)
                if value is not parsed.value or parsed.lossy:
                    row = json_text.write(value, row)
            pieces += (before, row, after)
        return "".join(pieces)

    def _value(self, value: Any, path: str, key: str, depth: int, nesting: int) -> Any:
        """The governed value; the very same object when nothing changed."""
        if isinstance(value, str):
            entity = self._policy.entity_of_key(key) if key else None
            if entity is not None:
                return self._by_key(value, entity, path)
            governed = self._string(value, path, key, depth) if value else value
            return value if governed == value else _DROPPED if governed is None else governed
        if isinstance(value, bool) or value is None:
            return value
        if isinstance(value, int | float):
            return self._number(value, path, key)
        if nesting >= _NESTING:
            raise Refusal("json_depth", f"JSON is nested more than {_NESTING} levels deep")
        if isinstance(value, list):
            items = [self._value(item, path + _TAIL, key, depth, nesting + 1) for item in value]
            same = all(new is old for new, old in zip(items, value, strict=True))
            # A removed item leaves its place, so that positions still mean what they meant.
            return value if same else [None if item is _DROPPED else item for item in items]
        return self._object(value, path, depth, nesting)

    def _object(
        self, value: Mapping[str, Any], path: str, depth: int, nesting: int
    ) -> Mapping[str, Any]:
        governed: dict[str, Any] = {}
        changed = False
        for key, item in value.items():
            new_key = self._plain(key, path + ".{key}", "") if key else key
            if new_key is None:
                changed = True
                continue
            # A container under a telling key has keys of its own that decide; lists repeat the key.
            inner_key = "" if isinstance(item, dict) else key
            new_item = self._value(item, f"{path}.{_shown(new_key)}", inner_key, depth, nesting + 1)
            changed = changed or new_key is not key or new_item is not item
            if new_item is not _DROPPED:
                governed[_free(new_key, governed)] = new_item
        return governed if changed else value

    def _number(self, value: float, path: str, key: str) -> Any:
        entity = self._policy.entity_of_key(key) if key else None
        text = _spelled(value)
        if entity is not None:
            governed = self._by_key(text, entity, path)
            return value if governed == text else governed
        # Digits behind the point are a measure's: a sixteenth of them would pass for a card's.
        if len(text.partition(".")[0]) < _NUMBER_DIGITS:
            return value
        governed = self._plain(text, path, key)
        return value if governed == text else _DROPPED if governed is None else governed

    def _by_key(self, value: str, entity: str, path: str) -> Any:
        if not value.strip() or is_token(value):
            return value
        operator = self._operator(entity)
        governed = operator.apply(entity, value, self._key, self._trajectory)
        if governed == value:
            return value
        self._counts[path, entity, operator.name] += 1
        return _DROPPED if governed is None else governed

    def _plain(self, text: str, path: str, key: str) -> str | None:
        """Text without structure; returns the very same object when nothing was found."""
        for _ in range(_ROUNDS):
            spans = self._scan(text, key)
            if not spans:
                return text
            pieces: list[str] = []
            end = 0
            changed = False
            for span in spans:
                value = text[span.start : span.end]
                operator = self._operator(span.entity)
                replacement = operator.apply(span.entity, value, self._key, self._trajectory)
                if replacement is None:
                    self._counts[path, span.entity, operator.name] += 1
                    return None
                if replacement != value:
                    changed = True
                    self._counts[path, span.entity, operator.name] += 1
                pieces += (text[end : span.start], replacement)
                end = span.end
            if not changed:
                return text
            text = "".join((*pieces, text[end:]))
        raise Refusal("unstable_redaction", "redacting a string kept bringing up new findings")

    def _operator(self, entity: str) -> Operator:
        operator = self._policy.operators[entity]
        if self._identifier and operator.name not in {"quarantine", "drop_event"}:
            return Operator("pseudonym")
        return operator


def merged(found: Iterable[Found]) -> tuple[Found, ...]:
    """Equal places added up, sorted."""
    counts: Counter[tuple[str, str, str]] = Counter()
    for one in found:
        counts[one.path, one.entity, one.operator] += one.count
    return tuple(
        Found(path, entity, operator, count)
        for (path, entity, operator), count in sorted(counts.items())
    )


def _spelled(value: float) -> str:
    """A number as people write it: 4111111111111111.0 and 4.111111111111111e15 are both 4111111111111111."""
    if isinstance(value, float) and value.is_integer() and abs(value) < _WRITTEN_OUT:
        return str(int(value))
    return repr(value)


def _shown(key: str) -> str:
    return key if len(key) <= _KEY_SHOWN else key[:_KEY_SHOWN] + "…"


def _free(key: str, taken: Mapping[str, Any]) -> str:
    """Two keys may be redacted to one text; both entries are kept."""
    if key not in taken:
        return key
    number = 2
    while f"{key}#{number}" in taken:
        number += 1
    return f"{key}#{number}"
