"""The walk through one string of an event: decoded, scanned, redacted, written back.

A string that is JSON is decoded, and its leaves and keys are governed one by one, up to
`json_depth` strings within strings. Any other string is scanned as text, after those of its lines
that are JSON documents of their own (NDJSON, server-sent events). Key rules decide about values by
the name of their key.

Redaction repeats until the text does not change any more, because removing a value can join the
text on both sides of it to a new value. A text that keeps changing is refused.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from atdp.governance.detect.codings import written_like
from atdp.governance.detect.detector import Reading
from atdp.governance.detect.key_names import is_value_key
from atdp.governance.detect.learned_detector import LearnedDetector
from atdp.governance.detect.numbers import number_entity
from atdp.governance.detect.readings import value_of
from atdp.governance.detect.spans import Span
from atdp.governance.errors import Refusal
from atdp.governance.policy.compiled import CompiledPolicy
from atdp.governance.redact.operators import RedactionOperator
from atdp.governance.redact.pseudonyms import TenantKey, is_pseudonym
from atdp.governance.replacements import Replacement, sorted_replacements
from atdp.governance.scanned_text import check_length
from atdp.governance.walk import json_text
from atdp.governance.walk.coded_blobs import coded_blobs
from atdp.governance.walk.lesson import Lesson
from atdp.governance.walk.prose import is_prose
from atdp.governance.walk.protected_ranges import (
    Edit,
    ProtectedRanges,
    Range,
    edited,
    written_ranges,
)
from atdp.governance.walk.split_values import joined_texts, text_sequences
from atdp.governance.walk.string_fields import FieldClass

_ROUNDS: Final = 4
_NESTING: Final = 200
"""Levels of objects and arrays within one JSON text. Deeper JSON is refused before Python's own
limit is reached."""
_KEY_LABEL: Final = "name"
"""Stands before the name of a key, where a model looks for the name of a person."""
_NUMBER_DIGITS: Final = 7
"""Numbers with at least this many digits before the point are scanned like text. Smaller ones are
counts, amounts and measures."""
_NUMBER: Final = re.compile(r"-?[1-9][0-9]{0,39}")
_EXACT_BELOW: Final = 1e40
"""A whole float below this is spelled out. Above it the digits carry no information, and no
number that names a person or an account is so long."""
_LIST: Final = "[*]"
_JSON: Final = "#"
"""Marks in a path that the string before it was decoded as JSON."""


class _Removed:
    """Marks a JSON value that the policy removes."""


_REMOVED: Final = _Removed()
_NUMBER_TYPES: Final = (int, float)
_IDENTIFIER_OPERATOR: Final = RedactionOperator("pseudonym")


class StringWalk:
    """Governs one string of an event. Each instance is used once."""

    def __init__(
        self,
        policy: CompiledPolicy,
        key: TenantKey,
        trajectory: str,
        *,
        kind: FieldClass = FieldClass.TEXT,
        learned: LearnedDetector | None = None,
        lesson: Lesson | None = None,
    ) -> None:
        """`kind`: TEXT, LABEL or IDENTIFIER.

        Use `learned` to find learned values, and `lesson` to collect what can be learned.
        """
        self._policy = policy
        self._learned = learned
        self._lesson = lesson
        self._key = key
        self._trajectory = trajectory
        self._kind = kind
        self._counts: Counter[tuple[str, str, str]] = Counter()
        self._surrogates: list[str] = []

    def run(self, text: str) -> tuple[str | None, tuple[Replacement, ...]]:
        """Return the governed text (None when it is removed) and what was replaced.

        Raises:
            Refusal, EventDropped: the event must not pass, or the policy drops it.
        """
        check_length(text, self._policy.document.limits.leaf_chars)
        return self._string(text, "", "", 0), sorted_replacements(self._counts)

    def run_texts(self, texts: Sequence[str]) -> tuple[list[str] | None, tuple[Replacement, ...]]:
        """Return texts that follow each other without the values that are split over them.

        None when there are no such values; what lies within one text stays.
        """
        return self._joined_texts(texts, "", ""), sorted_replacements(self._counts)

    def run_number(self, value: float, key: str) -> tuple[Any, tuple[Replacement, ...]]:
        """Return a governed number of an event (another number, a text or None), as `run` does.

        `key` is the name of the field that holds it.
        """
        governed = self._number(value, "", key)
        return None if governed is _REMOVED else governed, sorted_replacements(self._counts)

    def _string(self, text: str, path: str, key: str, depth: int) -> str | None:
        """Govern a string; `depth` counts the JSON strings around it."""
        parsed = json_text.parse(text)
        if parsed is None:
            named = self._kind is FieldClass.LABEL or key != ""
            prose = self._kind is not FieldClass.IDENTIFIER and is_prose(text, named=named)
            text, lines = self._json_lines(text, path, depth)
            decoded, protected = self._without_coded_values(text, path, key, depth, lines)
            if decoded is None:
                return None
            return self._plain_text(decoded, path, key, prose=prose, protected=protected)
        value = self._document(parsed, path, key, depth)
        if value is parsed.value and not parsed.lossy:
            return text
        return None if isinstance(value, _Removed) else json_text.write(value, text)

    def _json_lines(self, text: str, path: str, depth: int) -> tuple[str, ProtectedRanges]:
        """Govern the lines that are JSON documents of their own; return where surrogates are.

        The whole text is scanned afterwards, because values may extend over several lines.
        """
        lines = json_text.json_lines(text)
        if lines is None:
            return text, ProtectedRanges()
        pieces: list[str] = []
        places: list[Range] = []
        length = 0
        rows = [(line, json_text.parse(line[1]) if line[1] else None) for line in lines]
        joined = iter(
            self._without_split_values([row.value for _, row in rows if row], path + _JSON, "")
        )
        for (before, line, after), parsed in rows:
            governed = line
            earlier = len(self._surrogates)
            if parsed is not None:
                row = json_text.ParsedJson(next(joined), parsed.lossy)
                value = self._document(row, path, "", depth)
                if value is not parsed.value or parsed.lossy:
                    governed = json_text.write(value, line)
                places += written_ranges(governed, self._surrogates[earlier:], length + len(before))
            pieces += (before, governed, after)
            length += len(before) + len(governed) + len(after)
        return "".join(pieces), ProtectedRanges(tuple(places))

    def _without_split_values(self, items: list[Any], path: str, key: str) -> list[Any]:
        """Return JSON values that follow each other without the values that are split over them."""
        governed = items
        for sequence in text_sequences(items):
            name = sequence.names[-1] if sequence.names else key
            if self._policy.keys.entity_of(name) is not None:
                continue
            texts = self._joined_texts(sequence.texts, path + _LIST, name)
            if texts is not None:
                governed = sequence.replaced(governed, texts)
        return governed

    def _joined_texts(self, texts: Sequence[str], path: str, key: str) -> list[str] | None:
        return joined_texts(
            texts,
            lambda text, prose: self._policy.scanner.scan(text, key, self._learned, prose=prose),
            lambda entity, value: self._redacted(entity, value, path),
        )

    def _without_coded_values(
        self, text: str, path: str, key: str, depth: int, protected: ProtectedRanges
    ) -> tuple[str | None, ProtectedRanges]:
        """Govern the text that stands in base64 or hexadecimal digits within a text."""
        edits: list[Edit] = []
        for blob in coded_blobs(text):
            if not protected.open_parts(text, blob.start, blob.end):
                continue
            if depth >= self._policy.document.limits.json_depth:
                raise Refusal("json_depth", f"text is coded more than {depth} times")
            governed = self._string(blob.text, f"{path}{{{blob.name}}}", key, depth + 1)
            if governed is None:
                return None, protected
            if governed != blob.text:
                self._surrogates.append(blob.write(governed))
                edits.append(Edit(blob.start, blob.end, self._surrogates[-1], final=True))
        return (edited(text, edits), protected.after(edits)) if edits else (text, protected)

    def _document(self, parsed: json_text.ParsedJson, path: str, key: str, depth: int) -> Any:
        if depth >= self._policy.document.limits.json_depth:
            raise Refusal("json_depth", f"JSON is nested more than {depth} strings deep")
        return self._value(parsed.value, path + _JSON, key, depth + 1, 0)

    def _value(self, value: Any, path: str, key: str, depth: int, nesting: int) -> Any:
        """Return the governed JSON value: the same object when nothing changed."""
        if isinstance(value, str):
            return self._string_value(value, path, key, depth)
        if isinstance(value, bool) or value is None:
            return value
        if isinstance(value, _NUMBER_TYPES):
            return self._number(value, path, key)
        if nesting >= _NESTING:
            raise Refusal("json_depth", f"JSON is nested more than {_NESTING} levels deep")
        if isinstance(value, list):
            if value and self._policy.keys.names_in_pairs(value):
                return self._pairs(value, path, depth, nesting)
            return self._list(value, path, key, depth, nesting)
        return self._object(value, path, key, depth, nesting)

    def _list(self, value: list[Any], path: str, key: str, depth: int, nesting: int) -> list[Any]:
        joined = self._without_split_values(value, path, key)
        items = [self._value(item, path + _LIST, key, depth, nesting + 1) for item in joined]
        if all(new is old for new, old in zip(items, value, strict=True)):
            return value
        # Null replaces a removed item, so that the others keep their positions.
        return [None if item is _REMOVED else item for item in items]

    def _pairs(
        self, value: Sequence[Sequence[Any]], path: str, depth: int, nesting: int
    ) -> Sequence[Any]:
        """Govern a list of pairs of name and value: each value falls under its name."""
        governed = []
        for name, item in value:
            pair = [
                self._value(name, path + _LIST, "", depth, nesting + 2),
                self._value(item, path + _LIST, name, depth, nesting + 2),
            ]
            governed.append([None if each is _REMOVED else each for each in pair])
        return value if governed == value else governed

    def _object(
        self, value: Mapping[str, Any], path: str, key: str, depth: int, nesting: int
    ) -> Mapping[str, Any]:
        governed: dict[str, Any] = {}
        changed = False
        rule_keys = self._rule_keys(value, key)
        for position, (name, item) in enumerate(value.items(), 1):
            new_name = self._name(name, path + ".{key}", depth) if name else name
            if new_name is None:
                changed = True
                continue
            inner_path = f"{path}.{self._policy.path_keys.shown(new_name, position)}"
            inner_key = rule_keys.get(name, name)
            new_item = self._value(item, inner_path, inner_key, depth, nesting + 1)
            changed = changed or new_name is not name or new_item is not item
            if new_item is not _REMOVED:
                governed[_unused_key(new_name, governed)] = new_item
        return governed if changed else value

    def _name(self, name: str, path: str, depth: int) -> str | None:
        """Govern the name of a key."""
        text, protected = self._without_coded_values(name, path, "", depth, ProtectedRanges())
        return text and self._plain_text(text, path, _KEY_LABEL, protected=protected)

    def _rule_keys(self, value: Mapping[str, Any], key: str) -> Mapping[str, str]:
        """Return the keys whose values fall under the rule of another key.

        In `{"name": "DB_PASSWORD", "value": …}` the value falls under the name, in `{"phone":
        {"value": …}}` under the key of the object, and in `{"cookies": {…}}` every text does.
        """
        names = self._policy.keys
        outer = names.name_in(value)
        if not outer and key and names.entity_of(key) is not None:
            outer = key
        if not outer:
            return {}
        all_texts = outer == key and names.applies_within(key, value)
        return {
            name: outer
            for name, item in value.items()
            if (is_value_key(name) or (all_texts and isinstance(item, str)))
            and names.entity_of(name) is None
        }

    def _string_value(self, value: str, path: str, key: str, depth: int) -> Any:
        entity = self._policy.keys.entity_of(key) if key else None
        if entity is not None:
            return self._by_key_rule(value, entity, path)
        if not value:
            return value
        governed = self._string(value, path, key, depth)
        if governed == value:
            return value
        return _REMOVED if governed is None else governed

    def _number(self, value: float, path: str, key: str) -> Any:
        entity = self._policy.keys.entity_of(key) if key else None
        if entity is None:
            entity = number_entity(value, key, self._policy.number_entities)
        text = _spelled_out(value)
        if entity is not None:
            redacted = self._by_key_rule(text, entity, path)
        elif len(text.partition(".")[0]) < _NUMBER_DIGITS:
            # Digits after the point belong to a measure. About one in sixteen such numbers would
            # pass for a card number.
            return value
        else:
            redacted = self._plain_text(text, path, key)
        if redacted == text:
            return value
        return _REMOVED if redacted is None else _like_number(redacted, value)

    def _by_key_rule(self, value: str, entity: str, path: str) -> Any:
        """Redact a whole value whose key names its entity."""
        if not value.strip() or is_pseudonym(value):
            return value
        redacted = self._redacted(entity, value, path, stated=True)
        if redacted == value:
            return value
        return _REMOVED if redacted is None else redacted

    def _plain_text(
        self,
        text: str,
        path: str,
        key: str,
        *,
        prose: bool = False,
        protected: ProtectedRanges = ProtectedRanges(),  # noqa: B008 - immutable
    ) -> str | None:
        """Govern text without structure; returns the same object when nothing was detected.

        Prose is searched as such once: a trained model could find something else in the same
        sentence each time that words of it were replaced.
        """
        if self._lesson is not None:
            self._lesson.read(text)
        for _ in range(_ROUNDS):
            spans = self._policy.scanner.scan(text, key, self._learned, prose=prose, is_value=True)
            prose = False
            edits: list[Edit] = []
            for span in spans:
                is_final = self._operator(span.entity).name == "surrogate"
                parts = [(span.start, span.end)]
                if is_final:
                    parts = protected.open_parts(text, span.start, span.end)
                for start, end in parts:
                    replacement = self._replacement(text, start, end, span, path)
                    if replacement is None:
                        return None
                    if replacement != text[start:end]:
                        edits.append(Edit(start, end, replacement, is_final))
            if not edits:
                return text
            text, protected = edited(text, edits), protected.after(edits)
        raise Refusal("unstable_redaction", "redacting a string repeatedly produced new findings")

    def _replacement(self, text: str, start: int, end: int, span: Span, path: str) -> str | None:
        """Return what replaces a part of a span, in the coding of its place."""
        written = text[start:end]
        value = value_of(written, span.reading)
        if is_pseudonym(value):
            return written
        replacement = self._redacted(span.entity, value, path)
        if replacement is None or replacement == value:
            return replacement and written
        if span.reading is Reading.RAW:
            return replacement
        return written_like(replacement, text, start, end)

    def _redacted(self, entity: str, value: str, path: str, *, stated: bool = False) -> str | None:
        """Apply the entity's operator to `value`; a replacement that changes it is counted.

        `stated`: the name of the value's key gave the entity.
        """
        operator = self._operator(entity)
        replacement = operator.apply(entity, value, self._key, self._trajectory)
        if replacement != value:
            self._counts[path, entity, operator.name] += 1
            if operator.name == "surrogate" and replacement is not None:
                self._surrogates.append(replacement)
            if self._lesson is not None:
                self._lesson.learn(entity, value, stated=stated)
        return replacement

    def _operator(self, entity: str) -> RedactionOperator:
        operator = self._policy.operators[entity]
        if self._kind is FieldClass.IDENTIFIER and operator.name not in {
            "quarantine",
            "drop_event",
        }:
            return _IDENTIFIER_OPERATOR
        return operator


def _spelled_out(value: float) -> str:
    """Return a number without an exponent or a zero fraction, as people write it.

    4111111111111111.0 and 4.111111111111111e15 both give 4111111111111111.
    """
    if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT_BELOW:
        return str(int(value))
    return repr(value)


def _like_number(redacted: Any, value: float) -> Any:
    """Return the number that a redacted text spells, or the text where it spells none."""
    if isinstance(redacted, str) and _NUMBER.fullmatch(redacted):
        return type(value)(redacted)
    return redacted


def _unused_key(key: str, taken: Mapping[str, Any]) -> str:
    """Return `key`, with a number where another key was redacted to the same text."""
    if key not in taken:
        return key
    number = 2
    while f"{key}#{number}" in taken:
        number += 1
    return f"{key}#{number}"
