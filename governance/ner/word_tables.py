"""The word lists of the names model, from packages and from generated text."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from governance.ner.package_lists import (
    common_words,
    is_reserved,
    name_lists,
    pictured_things,
    place_lists,
    region_lists,
)
from governance.ner.plain_text import ordinary_words
from governance.ner.samples import SampleGenerator
from governance.ner.tagging import word_tags
from governance.ner.word_lists import word_list

from atdp.governance.names import WordLists, split_words

_FREQUENT: Final = 6_000
"""Words of ordinary text that have a row of their own."""
_SEEN: Final = 3
"""Occurrences from which a word counts as frequent."""
_SAMPLES: Final = 9_000


def _parts(names: Sequence[str]) -> set[str]:
    return {
        word.text.lower()
        for name in names
        for word in split_words(name)
        if word.text[0].isalpha() and len(word.text) > 1
    }


def _things() -> set[str]:
    """Return the words of goods and common English that are no first names."""
    names = _parts([name for each in name_lists() for name in each.first])
    return _parts([*word_list("goods"), *pictured_things(), *common_words()]) - names


def word_lists_of(seed: int, *, with_reserved: bool) -> WordLists:
    """Return the lists; those without reserved words are for training and evaluation."""
    counts: Counter[str] = Counter()
    generator = SampleGenerator(seed)
    for _ in range(_SAMPLES):
        sample = generator.sample()
        words = split_words(sample.text)
        for word, tag in zip(words, word_tags(sample, words), strict=True):
            if tag == 0:
                counts[word.text.lower()] += 1
    frequent = [word for word, count in counts.most_common(_FREQUENT) if count >= _SEEN]
    names = name_lists()
    countries, states, _ = region_lists()
    lists = {
        "first_names": _parts([name for each in names for name in each.first]),
        "last_names": _parts([name for each in names for name in each.last]),
        "places": _parts(place_lists()),
        "regions": _parts([*countries, *states]),
        "nationalities": _parts(word_list("nationalities")),
        "organisations": _parts(
            [
                *word_list("brands"),
                *word_list("industries"),
                *word_list("organisation_suffixes"),
            ]
        ),
        "street_suffixes": _parts(word_list("street_suffixes")),
        "honorifics": _parts(word_list("honorifics")),
        "ordinary_words": {*ordinary_words(), *_things()},
    }
    if not with_reserved:
        for name in ("first_names", "last_names", "places"):
            lists[name] = {word for word in lists[name] if not is_reserved(word)}
    return WordLists.of(frequent, {name: sorted(words) for name, words in lists.items()})
