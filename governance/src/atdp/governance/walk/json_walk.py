"""The walk through a JSON value: its leaves and keys are governed one by one.

Key rules decide about values by the name of their key.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from atdp.governance.detect.key_names import is_value_key
from atdp.governance.detect.numbers import number_entity
from atdp.governance.errors import Refusal
from atdp.governance.policy.compiled import CompiledPolicy
from atdp.governance.walk.split_values import text_sequences
from atdp.governance.walk.string_redaction import StringRedaction

_NESTING: Final = 200
"""Levels of objects and arrays within one JSON text. Deeper JSON is refused before Python's own
limit is reached."""
_NUMBER_DIGITS: Final = 7
"""Numbers with at least this many digits before the point are scanned like text. Smaller ones are
counts, amounts and measures."""
_NUMBER: Final = re.compile(r"-?[1-9][0-9]{0,39}")
_EXACT_BELOW: Final = 1e40
"""A whole float below this is spelled out. Above it the digits carry no information, and no
number that names a person or an account is so long."""
_LIST: Final = "[*]"


class Removed:
    """Marks a JSON value that the policy removes."""


REMOVED: Final = Removed()
_NUMBER_TYPES: Final = (int, float)


class StringsWithin(Protocol):
    """Governs the strings of a JSON value, which may hold JSON themselves."""

    def string(self, text: str, path: str, key: str, depth: int) -> str | None:
        """Return the governed text, or None when it is removed."""
        ...

    def name(self, name: str, path: str, depth: int) -> str | None:
        """Return the governed name of a key, or None when the key is removed."""
        ...


class JsonWalk:
    """Governs JSON values. Each method returns the same object when nothing changed.

    `key` is the name of the key that holds a value, and `depth` counts the JSON strings around it.
    """

    def __init__(
        self, policy: CompiledPolicy, redaction: StringRedaction, strings: StringsWithin
    ) -> None:
        self._policy = policy
        self._redaction = redaction
        self._strings = strings

    def value(self, value: Any, path: str, key: str, depth: int, nesting: int = 0) -> Any:
        """Return the governed value, or `REMOVED`."""
        if isinstance(value, str):
            return self._string(value, path, key, depth)
        if isinstance(value, bool) or value is None:
            return value
        if isinstance(value, _NUMBER_TYPES):
            return self.number(value, path, key)
        if nesting >= _NESTING:
            raise Refusal("json_depth", f"JSON is nested more than {_NESTING} levels deep")
        if isinstance(value, list):
            if value and self._policy.keys.names_in_pairs(value):
                return self._pairs(value, path, depth, nesting)
            return self._list(value, path, key, depth, nesting)
        return self._object(value, path, key, depth, nesting)

    def number(self, value: float, path: str, key: str) -> Any:
        """Return the governed number: a number, a text or `REMOVED`."""
        entity = self._policy.keys.entity_of(key) if key else None
        if entity is None:
            entity = number_entity(value, key, self._policy.number_entities)
        text = _spelled_out(value)
        if entity is not None:
            redacted = self._redaction.stated(entity, text, path)
        elif len(text.partition(".")[0]) < _NUMBER_DIGITS:
            # Digits after the point belong to a measure. About one in sixteen such numbers would
            # pass for a card number.
            return value
        else:
            redacted = self._redaction.text(text, path, key)
        if redacted == text:
            return value
        return REMOVED if redacted is None else _like_number(redacted, value)

    def without_split_values(self, items: list[Any], path: str, key: str) -> list[Any]:
        """Return values that follow each other without those that are split over them."""
        governed = items
        for sequence in text_sequences(items):
            name = sequence.names[-1] if sequence.names else key
            if self._policy.keys.entity_of(name) is not None:
                continue
            texts = self._redaction.joined_texts(sequence.texts, path + _LIST, name)
            if texts is not None:
                governed = sequence.replaced(governed, texts)
        return governed

    def _string(self, value: str, path: str, key: str, depth: int) -> Any:
        entity = self._policy.keys.entity_of(key) if key else None
        if not value:
            return value
        if entity is not None:
            governed = self._redaction.stated(entity, value, path)
        else:
            governed = self._strings.string(value, path, key, depth)
        if governed == value:
            return value
        return REMOVED if governed is None else governed

    def _list(self, value: list[Any], path: str, key: str, depth: int, nesting: int) -> list[Any]:
        joined = self.without_split_values(value, path, key)
        items = [self.value(item, path + _LIST, key, depth, nesting + 1) for item in joined]
        if all(new is old for new, old in zip(items, value, strict=True)):
            return value
        # Null replaces a removed item, so that the others keep their positions.
        return [None if item is REMOVED else item for item in items]

    def _pairs(
        self, value: Sequence[Sequence[Any]], path: str, depth: int, nesting: int
    ) -> Sequence[Any]:
        """Govern a list of pairs of name and value: each value falls under its name."""
        governed = []
        for name, item in value:
            pair = [
                self.value(name, path + _LIST, "", depth, nesting + 2),
                self.value(item, path + _LIST, name, depth, nesting + 2),
            ]
            governed.append([None if each is REMOVED else each for each in pair])
        return value if governed == value else governed

    def _object(
        self, value: Mapping[str, Any], path: str, key: str, depth: int, nesting: int
    ) -> Mapping[str, Any]:
        governed: dict[str, Any] = {}
        changed = False
        rule_keys = self._rule_keys(value, key)
        for position, (name, item) in enumerate(value.items(), 1):
            new_name = self._strings.name(name, path + ".{key}", depth) if name else name
            if new_name is None:
                changed = True
                continue
            inner_path = f"{path}.{self._policy.path_keys.shown(new_name, position)}"
            inner_key = rule_keys.get(name, name)
            new_item = self.value(item, inner_path, inner_key, depth, nesting + 1)
            changed = changed or new_name is not name or new_item is not item
            if new_item is not REMOVED:
                governed[_unused_key(new_name, governed)] = new_item
        return governed if changed else value

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


def _spelled_out(value: float) -> str:
    """Return a number without an exponent or a zero fraction, as people write it.

    4111111111111111.0 and 4.111111111111111e15 both give 4111111111111111.
    """
    if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT_BELOW:
        return str(int(value))
    return repr(value)


def _like_number(redacted: str, value: float) -> float | str:
    """Return the number that a redacted text spells, or the text where it spells none."""
    return type(value)(redacted) if _NUMBER.fullmatch(redacted) else redacted


def _unused_key(key: str, taken: Mapping[str, Any]) -> str:
    """Return `key`, with a number where another key was redacted to the same text."""
    if key not in taken:
        return key
    number = 2
    while f"{key}#{number}" in taken:
        number += 1
    return f"{key}#{number}"
