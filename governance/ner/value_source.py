"""The source of invented values: one seeded generator, with pools of Faker's values."""

import random
from collections.abc import Callable, Sequence
from typing import Any, Final

import faker
from faker.providers.address.it_IT import Provider as ItalianAddress
from governance.ner.package_lists import is_reserved
from governance.ner.word_lists import word_list

# Faker makes this list from a set, whose order differs from process to process.
ItalianAddress.cities.sort()

_POOL: Final = 700
"""Values of one kind and locale that are made at once, because Faker is slow."""


class ValueSource:
    """Draws values with one seeded generator.

    `reserved`: None draws any word, False only words of training, True only reserved ones where
    there are any.
    """

    def __init__(self, seed: int, *, reserved: bool | None) -> None:
        self.rng = random.Random(seed)
        self._reserved = reserved
        self._seed = seed
        self._pools: dict[tuple[str, str], list[str]] = {}
        self._fakers: dict[str, faker.Faker] = {}

    def draw(self, words: Sequence[str]) -> str:
        """Return a word of the list, by the rule of reserved words."""
        for _ in range(40):
            word = self.rng.choice(words)
            if self._reserved is None or is_reserved(word) is self._reserved:
                return word
        return word

    def pooled(self, kind: str, locale: str | None = None) -> str:
        """Return a value of a method of Faker, from a pool of its own for each locale."""
        locale = locale or self.rng.choice(word_list("locales"))
        pool = self._pools.get((kind, locale))
        if pool is None:
            generator = self._fakers.get(locale)
            if generator is None:
                generator = self._fakers[locale] = faker.Faker(locale)
                generator.seed_instance(self._seed)
            make: Callable[[], Any] = getattr(generator, kind)
            pool = self._pools[kind, locale] = [str(make()) for _ in range(_POOL)]
        return self.rng.choice(pool)

    def digits(self, pattern: str) -> str:
        """Return the pattern with a digit for each # and a letter for each ?."""
        rng = self.rng
        return "".join(
            str(rng.randint(0, 9))
            if each == "#"
            else rng.choice("ABCDEFGHJKLMNPRSTUVWXYZ")
            if each == "?"
            else each
            for each in pattern
        )
