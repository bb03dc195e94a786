"""Numbers that name a person: what counts without a word that says so.

In text, nine digits are a social security number only where a word such as `SSN` precedes them. A
number of a document has no words around it, so the policy says for each entity whether its form
alone is enough (`numbers: find`). Keys that name a measure are left out.
"""

import re
from collections.abc import Set as AbstractSet
from typing import Final

from atdp.governance.detect.key_names import name_words

NUMBER_FORMS: Final = {
    "US_SSN": re.compile(r"(?!000|666|9)[0-9]{3}(?!00)[0-9]{2}(?!0000)[0-9]{4}"),
    "US_ITIN": re.compile(r"9[0-9]{2}(?:5[0-9]|6[0-5]|7[0-9]|8[0-8]|9[0-2]|9[4-9])[0-9]{4}"),
}
"""Forms of whole numbers, without a sign, by entity."""
_LEAST: Final = 100_000_000
_MEASURES: Final = frozenset(
    {"at", "bytes", "created", "duration", "elapsed", "expires", "micros", "millis", "ms", "nanos",
     "ns", "offset", "size", "time", "timestamp", "updated", "us"}
)  # fmt: skip
"""Last words of keys whose numbers are times, durations and sizes."""


def number_entity(number: float, key: str, entities: AbstractSet[str]) -> str | None:
    """Return which of `entities` a number is by its form alone, or None.

    `key` is the name of the key that holds the number.
    """
    size = abs(number)
    if not _LEAST <= size < _LEAST * 10 or size != int(size):
        return None
    words = name_words(key)
    if words and words[-1] in _MEASURES:
        return None
    digits = str(int(size))
    return next(
        (
            entity
            for entity, form in NUMBER_FORMS.items()
            if entity in entities and form.fullmatch(digits)
        ),
        None,
    )
