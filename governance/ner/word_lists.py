"""The word lists of `word_lists.txt`, which the invented values are made of."""

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_FILE: Final = Path(__file__).with_suffix(".txt")


@functools.cache
def _lists() -> Mapping[str, tuple[str, ...]]:
    lines = (line.partition(": ") for line in _FILE.read_text(encoding="utf-8").splitlines())
    return {name: tuple(words.split(";")) for name, _, words in lines}


def word_list(name: str) -> tuple[str, ...]:
    """Return the words of a list, such as `nationalities` or `products`."""
    return _lists()[name]
