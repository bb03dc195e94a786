"""Borders within values: line breaks, and the borders of texts that follow each other."""

import re
from typing import Final

BREAK = re.compile(r"(?<=[\w@.+/=()-])[ \t]{0,8}\r?\n(?:[ \t]|[>#*|]|//){0,40}(?=[\w@.+/=(-])")
"""A line break that may be within a value, with the indentation or quotation marks behind it."""
_BETWEEN_DIGITS = re.compile(r"(?:^|[^.\d])\d{2,}[).-]?\n[(+]?\d{2,}(?!\.\d)")
_VALUE_CHARACTERS = re.compile(
    r"[\d@\uff01-\uff5e]|pass|pwd|secret|token|key|credential|bearer|authorization", re.IGNORECASE
)
_NEAR: Final = 40
_DIGITS: Final = 12


def may_split_value(text: str, start: int, end: int) -> bool:
    """Return True when a value may extend over the break at `start` to `end`."""
    near = text[max(0, start - _NEAR) : start], text[end : end + _NEAR]
    return any(map(_VALUE_CHARACTERS.search, near))


def is_between_digits(text: str, start: int, end: int) -> bool:
    """Return True when the break is between groups of digits that are no decimal numbers."""
    around = text[max(0, start - _DIGITS) : start], text[end : end + _DIGITS]
    return _BETWEEN_DIGITS.search("\n".join(around)) is not None
