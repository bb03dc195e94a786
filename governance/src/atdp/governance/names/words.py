"""Splits text into the words that the names model reads."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import regex

_WORD: Final = regex.compile(
    r"[\p{L}\p{M}]+(?:['’](?!s\b)[\p{L}\p{M}]+)*|['’]s\b|\d+|[^\p{L}\p{M}\d\s]", regex.VERSION1
)
"""Letters with inner apostrophes (O'Brien), a possessive ending, digits, or one other character."""
GAPS: Final = 5
"""Kinds of what stands before a word: nothing, a space, more spaces, a line break, several."""


@dataclass(frozen=True, slots=True)
class Word:
    """Characters `start` (inclusive) to `end` (exclusive) of a text. `gap` is in range(GAPS)."""

    text: str
    start: int
    end: int
    gap: int


def split_words(text: str) -> Sequence[Word]:
    """Return the words of a text in order. The first word stands after a line break."""
    words: list[Word] = []
    end = 0
    for match in _WORD.finditer(text):
        start = match.start()
        words.append(Word(match[0], start, match.end(), _gap(text[end:start]) if words else 3))
        end = match.end()
    return words


def _gap(between: str) -> int:
    if between in {"", " "}:
        return len(between)
    breaks = between.count("\n")
    return min(2 + breaks, GAPS - 1)
