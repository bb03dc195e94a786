"""The cases: which value stands where, in which document, coding and split.

Case number n of a seed is always the same case, so several processes share the work by number, and
a case that is left can be looked at alone. Consecutive numbers go through all combinations of type,
document and coding, or type and split, each time in other fields.
"""

import functools
import json
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from atdp.schemas import check_record

from .codings import CODINGS, WHOLE
from .event_fields import (
    NOW,
    EventField,
    line_fields,
    number_fields,
    part_fields,
    planted_record,
    string_fields,
)
from .nestings import NESTINGS, NUMBER_NESTINGS, SPLITS, WrittenValue
from .personal_values import NUMBER_KINDS, VALUE_KINDS, PersonalValue, personal_value

_SPLIT_CODINGS = ("plain", "plain", "url", "html", "zero-width", "full-width")
_STRIDE = 379
"""Step from the field of one round to that of the next. It has no factor in common with the number
of fields, so every combination meets every field in the end."""

_SPREAD = 100_003
"""Step between the combinations of consecutive numbers: a prime, so that a small sample meets
classes of every sort and a large one meets every combination equally often."""
_ATTEMPTS = 100
"""More values that are tried than there are fields, because a coding may not change a value."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Combination:
    """A class of cases. `split` is empty where the value stands in one piece."""

    kind: str
    nesting: str
    coding: str
    split: str = ""

    @property
    def labels(self) -> tuple[str, ...]:
        """The classes that a case counts under, as `--only` names them."""
        split = (f"split={self.split}",) if self.split else ()
        return f"type={self.kind}", f"nesting={self.nesting}", f"coding={self.coding}", *split


@dataclass(frozen=True, kw_only=True, slots=True)
class LeakCase:
    """A record with one planted value."""

    number: int
    combination: Combination
    field: EventField
    value: PersonalValue
    record: dict[str, Any]


@functools.cache
def combinations(only: str = "") -> Sequence[Combination]:
    """Return all combinations, or those of one class (`coding=base64`, or `base64` alone)."""
    every = [*_whole_values(), *_numbers(), *_splits()]
    if not only:
        return every
    return [
        each
        for each in every
        if any(only in {label, label.partition("=")[2]} for label in each.labels)
    ]


def leak_case(number: int, seed: int, only: str = "") -> LeakCase:
    """Return case `number`, counted from 0 without end."""
    every = combinations(only)
    combination, round_ = every[number * _SPREAD % len(every)], number // len(every)
    chance = random.Random(f"{seed}/{number}/{only}")
    fields = _fields(combination)
    # Neighbouring combinations begin at other fields.
    place = (number * 7 + round_ * _STRIDE) % len(fields)
    for attempt in range(len(fields) + _ATTEMPTS):
        value = personal_value(combination.kind, chance)
        field = fields[(place + attempt) % len(fields)]
        planted = _planted(combination, field, value, chance)
        if planted is None or not _may_stand(planted, field):
            continue
        record = planted_record(field, planted)
        if not check_record(record, now=NOW):
            return LeakCase(
                number=number, combination=combination, field=field, value=value, record=record
            )
    raise ValueError(f"no field can hold {combination}")


def _whole_values() -> list[Combination]:
    return [
        Combination(kind=kind, nesting=nesting, coding=coding)
        for kind in VALUE_KINDS
        for nesting in NESTINGS
        for coding in (*CODINGS, *WHOLE)
        if _applies(kind, coding)
    ]


def _numbers() -> list[Combination]:
    nested = [
        Combination(kind=kind, nesting=nesting, coding="json number")
        for kind in NUMBER_KINDS
        for nesting in NUMBER_NESTINGS
    ]
    direct = [
        Combination(kind=kind, nesting="plain", coding="avro number") for kind in NUMBER_KINDS
    ]
    # Twice as often: few combinations, but one for every field of numbers.
    return [*nested, *direct] * 4


def _splits() -> list[Combination]:
    return [
        Combination(kind=kind, nesting="plain", coding=coding, split=split)
        for kind in VALUE_KINDS
        for split in (*SPLITS, "parts", "messages", "strings")
        for coding in _SPLIT_CODINGS
        if _applies(kind, coding)
    ]


@functools.cache
def _applies(kind: str, coding: str) -> bool:
    """Return False for a coding that never changes values of a type."""
    if coding in WHOLE:
        return True
    chance = random.Random(kind)
    return any(CODINGS[coding](personal_value(kind, chance), chance) is not None for _ in range(20))


def _fields(combination: Combination) -> Sequence[EventField]:
    if combination.coding == "avro number":
        wide = combination.kind == "card"
        return [each for each in number_fields() if wide or not each.holds_small_measure]
    match combination.split:
        case "parts":
            return part_fields()
        case "messages":
            return [each for each in part_fields() if each.kind == "observation"]
        case "strings":
            return [each for each in string_fields() if each.path.endswith("sampling.stop")]
        case _:
            return string_fields()


def _planted(
    combination: Combination, field: EventField, value: PersonalValue, chance: random.Random
) -> Any:
    """Return what is written at the field, or None when this value has no such coding."""
    if combination.coding == "avro number":
        return float(value.digits) if field.avro == "double" else int(value.digits)
    written = _written(combination, value, chance)
    if written is None:
        return None
    if combination.split:
        return _split(combination.split, field, written.sentence, chance)
    nestings = NUMBER_NESTINGS if combination.coding == "json number" else NESTINGS
    return _fitting(field, nestings[combination.nesting](written, chance))


def _may_stand(planted: Any, field: EventField) -> bool:
    """Return False at once for the frequent case of several lines in an identifier."""
    return not isinstance(planted, str) or "\n" not in planted or field in _line_fields()


@functools.cache
def _line_fields() -> frozenset[EventField]:
    return frozenset(line_fields())


def _written(
    combination: Combination, value: PersonalValue, chance: random.Random
) -> WrittenValue | None:
    key = chance.choice(value.keys)
    if combination.coding == "json number":
        return WrittenValue(sentence=value.digits, value=value.digits, key=key)
    if combination.coding in WHOLE:
        encode = WHOLE[combination.coding]
        sentence = encode(f"{value.before} {value.text}", chance)
        return WrittenValue(sentence=sentence, value=encode(value.text, chance), key=key)
    coded = CODINGS[combination.coding](value, chance)
    if coded is None:
        return None
    space = "" if coded[0].isspace() else " "
    after = chance.choice((".", ", thanks.", "", " as I said"))
    sentence = f"{value.before}{space}{coded}{after}"
    return WrittenValue(sentence=sentence, value=coded, key=key)


def _fitting(field: EventField, text: str) -> str:
    """Return the text in a form that the field may hold."""
    if not field.is_json:
        return text
    try:
        document = json.loads(text)
    except ValueError:
        return json.dumps({"note": text})
    if field.holds_object and not isinstance(document, dict):
        return json.dumps({"note": document})
    return text


def _split(split: str, field: EventField, sentence: str, chance: random.Random) -> Any:
    count = 2 if split == "messages" else chance.randrange(2, 5)
    # The cuts lie in the second half of the sentence, where the value is.
    first = math.ceil(len(sentence) / 2)
    cuts = sorted(chance.sample(range(first, len(sentence) - 1), count - 1))
    pieces = [sentence[start:end] for start, end in zip([0, *cuts], [*cuts, None], strict=True)]
    if split in SPLITS:
        return _fitting(field, SPLITS[split](pieces, chance))
    return [[piece] for piece in pieces] if split == "messages" else pieces
