"""Names and places from the lists of Faker's locales and of phonenumbers' geodata."""

import functools
import hashlib
import importlib
import pkgutil
import re
import unicodedata
from dataclasses import dataclass
from typing import Any, Final

from faker.providers import address as address_providers, person as person_providers
from faker.providers.lorem.en_US import Provider as CommonWords
from governance.ner.word_lists import word_list
from phonenumbers import geodata

_RESERVED_SHARE: Final = 8
_PICTURES: Final = (range(0x1F300, 0x1F600), range(0x1F680, 0x1F700), range(0x1F900, 0x1FB00))
"""Characters that are pictures, mostly of things."""
_NO_THINGS: Final = re.compile(r"-|\b(japanese|tokyo|mount|christmas|latin|face|symbol|hindu)\b")
_CYRILLIC: Final = dict(
    zip("абвгдеёжзийклмнопрстуфхцчшщъыьэюя", word_list("cyrillic_letters"), strict=True)
)


@dataclass(frozen=True, slots=True)
class NameLists:
    """The first and last names of one locale."""

    locale: str
    first: tuple[str, ...]
    last: tuple[str, ...]


def is_reserved(word: str) -> bool:
    """Return True for one word in eight, which training does not see."""
    return hashlib.blake2b(word.lower().encode(), digest_size=4).digest()[0] % _RESERVED_SHARE == 0


def _latin(word: str) -> str:
    """Return a Cyrillic word in Latin letters, and any other word as it is."""
    if any("а" <= letter <= "я" for letter in word.lower()):
        letters = "".join(_CYRILLIC.get(letter, letter) for letter in word.lower())
        return letters.title()
    return word


def _words_of(provider: Any, *names: str) -> set[str]:
    words: set[str] = set()
    for name in names:
        listed = getattr(provider, name, ())
        for each in listed if isinstance(listed, list | tuple | dict) else ():
            if isinstance(each, str) and 1 < len(word := _latin(each.strip())) < 30:
                words.add(word)
    return {word for word in words if unicodedata.name(word[0], "").startswith("LATIN")}


@functools.cache
def name_lists() -> tuple[NameLists, ...]:
    """Return the names of every locale of Faker that writes them in Latin or Cyrillic letters."""
    lists = []
    for module in pkgutil.iter_modules(person_providers.__path__):
        provider: Any = importlib.import_module(
            f"{person_providers.__name__}.{module.name}"
        ).Provider
        first = _words_of(
            provider,
            "first_names",
            "first_names_male",
            "first_names_female",
            "first_names_nonbinary",
            "first_romanized_names",
        )
        last = _words_of(
            provider, "last_names", "last_names_male", "last_names_female", "last_romanized_names"
        )
        if len(first) > 30 and len(last) > 30:
            lists.append(NameLists(module.name, tuple(sorted(first)), tuple(sorted(last))))
    return tuple(lists)


@functools.cache
def place_lists() -> tuple[str, ...]:
    """Return towns and regions of phonenumbers' geodata and Faker, in Latin letters."""
    places: set[str] = set()
    for module in pkgutil.iter_modules(geodata.__path__):
        data = getattr(importlib.import_module(f"{geodata.__name__}.{module.name}"), "data", {})
        for languages in data.values():
            for language, text in languages.items():
                if language in {"en", "de", "fr", "es", "it", "pt", "nl", "sv", "pl"}:
                    places.update(part.strip() for part in re.split(r"[,/();&]| - ", text))
    for module in pkgutil.iter_modules(address_providers.__path__):
        provider: Any = importlib.import_module(
            f"{address_providers.__name__}.{module.name}"
        ).Provider
        places |= _words_of(provider, "cities", "city_names", "communities", "counties")
    return tuple(
        sorted(
            place
            for place in places
            if 2 < len(place) < 30
            and place[0].isupper()
            and not any(letter.isdigit() for letter in place)
            and unicodedata.name(place[0], "").startswith("LATIN")
        )
    )


@functools.cache
def region_lists() -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Return countries, states, and abbreviations of states."""
    english: Any = importlib.import_module("faker.providers.address.en").Provider
    countries = _words_of(english, "countries") | {*word_list("more_countries")}
    states: set[str] = set()
    abbreviations: set[str] = set()
    for locale in ("en_US", "en_CA", "en_AU", "en_IN", "de_DE", "es_MX", "pt_BR"):
        provider: Any = importlib.import_module(f"faker.providers.address.{locale}").Provider
        states |= _words_of(provider, "states", "provinces")
        abbreviations |= _words_of(provider, "states_abbr", "provinces_abbr")
    return tuple(sorted(countries)), tuple(sorted(states)), tuple(sorted(abbreviations))


@functools.cache
def pictured_things() -> tuple[str, ...]:
    """Return the things that Unicode has pictures of, named in one or two words."""
    names = {unicodedata.name(chr(code), "").lower() for codes in _PICTURES for code in codes}
    return tuple(
        sorted(name for name in names if 0 < len(name.split()) < 3 and not _NO_THINGS.search(name))
    )


@functools.cache
def common_words() -> tuple[str, ...]:
    """Return common words of English in lower case, from Faker."""
    return tuple(sorted({word for word in CommonWords.word_list if word.islower()}))
