"""Invented people, places, addresses and organisations.

The words come from the lists of Faker's locales and from the place names of phonenumbers' geodata,
so nothing is downloaded. Reserved words are kept out of training, so that the evaluation can use
names and places that the model has never read.
"""

from typing import Final

from governance.ner.invented_things import InventedThings
from governance.ner.numbers import InventedNumbers
from governance.ner.package_lists import NameLists, name_lists, place_lists, region_lists
from governance.ner.word_lists import word_list

_ENGLISH: Final = frozenset({"en", "en_US", "en_GB", "en_IE", "en_NZ"})
_ENGLISH_SHARE: Final = 0.35


class InventedValues(InventedNumbers, InventedThings):
    """All invented values."""

    # People

    def _names(self) -> NameLists:
        lists = name_lists()
        if self.rng.random() < _ENGLISH_SHARE:
            lists = tuple(each for each in lists if each.locale in _ENGLISH)
        return self.rng.choice(lists)

    def first(self) -> str:
        """Return a first name."""
        return self.draw(self._names().first)

    def last(self) -> str:
        """Return a last name."""
        name = self.draw(self._names().last)
        return f"{name}-{self.draw(self._names().last)}" if self.rng.random() < 0.03 else name

    def name(self) -> str:
        """Return a full name in one of its usual forms."""
        rng = self.rng
        names = self._names()
        first, last = self.draw(names.first), self.draw(names.last)
        if rng.random() < 0.12:
            last = self.last()
        form = rng.random()
        if form < 0.70:
            return f"{first} {last}"
        if form < 0.80:
            return f"{first} {rng.choice('ABCDEFGHIJKLMNOPRSTW')}. {last}"
        if form < 0.87:
            return f"{first} {self.draw(names.first)} {last}"
        if form < 0.91:
            return f"{first[0]}. {last}"
        if form < 0.94:
            return f"{first} {last} {self.draw(names.last)}"
        if form < 0.96:
            return f"{last}, {first}"
        return first if form < 0.98 else f"{first} {last[0]}."

    def last_first(self) -> str:
        """Return a full name as lists write it."""
        names = self._names()
        return f"{self.draw(names.last)}, {self.draw(names.first)}"

    # Places

    def city(self) -> str:
        """Return a town: a real one more often than an invented one."""
        share = self.rng.random()
        if share < 0.62:
            return self.draw(place_lists())
        return self.pooled("city", None if share < 0.85 else "en_US")

    def country(self) -> str:
        """Return a country."""
        return self.rng.choice(region_lists()[0])

    def state(self) -> str:
        """Return a state or province."""
        return self.rng.choice(region_lists()[1])

    def place(self) -> str:
        """Return a town, state or country, alone or together."""
        rng = self.rng
        form = rng.random()
        if form < 0.45:
            return self.city()
        if form < 0.65:
            return self.country()
        if form < 0.75:
            return self.state()
        if form < 0.88:
            return f"{self.city()}, {rng.choice(region_lists()[2])}"
        return f"{self.city()}, {self.country()}"

    def street(self) -> str:
        """Return a street with a house number, often with a unit."""
        rng = self.rng
        form = rng.random()
        if form < 0.45:
            return self.pooled("street_address").replace("\n", rng.choice([", ", " ", "\n"]))
        number = self.digits(rng.choice(["#", "##", "##", "###", "###", "####", "#####", "##?"]))
        number = number.lstrip("0") or "7"
        stem = rng.choice([self.last, self.first, self.city])()
        if form > 0.9:
            stem = rng.choice(["1st", "2nd", "3rd", "4th", "12th", "23rd", "42nd", "5th", "8th"])
        suffix = rng.choice(word_list("street_suffixes"))
        direction = rng.choice(["", "", "", "", "N ", "S. ", "West ", "E. ", "NW "])
        line = f"{number} {direction}{stem} {suffix}"
        if rng.random() < 0.3:
            unit = rng.choice(word_list("units"))
            unit = self.digits(unit.replace("#%", "\0")).replace("\0", "#")
            line += rng.choice([", ", " ", "\n"]) + unit
        return line

    def thing_street(self) -> str:
        """Return a street that is named after a thing, such as 6 Rope Walk."""
        number = self.rng.randint(1, 99)
        stem = self.rng.choice([self.thing, self.word])()
        street = f"{number} {stem} {self.rng.choice(word_list('street_suffixes'))}"
        return street.title() if self.rng.random() < 0.6 else street.lower()

    def postcode(self) -> str:
        """Return a postal code."""
        form = self.rng.random()
        if form < 0.5:
            return self.digits("#####")
        return self.digits("#####-####") if form < 0.6 else self.pooled("postcode")

    def address(self) -> str:
        """Return a postal address on one line or several."""
        rng = self.rng
        form = rng.random()
        gap = rng.choice([", ", ", ", "\n", " ", ",\n", "\n "])
        if form < 0.35:
            return self.pooled("address").replace("\n", gap)
        street, city, zip_ = self.street(), self.city(), self.postcode()
        if form < 0.6:
            state = rng.choice(region_lists()[rng.choice([1, 2])])
            text = f"{street}{gap}{city}, {state} {zip_}"
        elif form < 0.72:
            text = f"{street}{gap}{zip_} {city}"
        elif form < 0.84:
            text = f"{street}{gap}{city}{gap}{self.country()} {zip_}"
        elif form < 0.92:
            text = f"{street}{gap}{city}"
        else:
            text = f"{street}{gap}{city} {zip_}"
        if rng.random() < 0.15:
            text += gap + self.country()
        return text

    # Organisations and groups

    def organisation(self) -> str:
        """Return a company, institution or brand."""
        rng = self.rng
        form = rng.random()
        if form < 0.3:
            return self.pooled("company")
        if form < 0.42:
            return f"{self.last()} {rng.choice(word_list('industries'))}"
        if form < 0.5:
            stem = rng.choice([self.last, self.city, self.brand])()
            return f"{stem} {rng.choice(word_list('organisation_suffixes'))}"
        if form < 0.58:
            return rng.choice(word_list("institutions")).format(self.city())
        if form < 0.64:
            return f"{self.last()} {rng.choice(['&', 'and'])} {self.last()}"
        if form < 0.7:
            return "".join(rng.choice("ABCDEFGHIKLMNOPRSTUVW") for _ in range(rng.randint(3, 5)))
        if form < 0.8:
            return f"{self.brand()} {rng.choice(word_list('industries'))}"
        return rng.choice(word_list("brands")) if form < 0.92 else self.brand()

    def brand(self) -> str:
        """Return an invented brand."""
        rng = self.rng
        syllables = [
            rng.choice(word_list("syllable_starts"))
            + rng.choice("aeiou")
            + rng.choice(["", "", "n", "r", "x", "l", "s", "nt", "m"])
            for _ in range(rng.randint(2, 3))
        ]
        word = "".join(syllables).capitalize()
        return word if rng.random() < 0.7 else word + rng.choice(word_list("brand_endings"))

    def nationality(self) -> str:
        """Return a nationality, religion or political group."""
        return self.rng.choice(word_list("nationalities"))

    def nationals(self) -> str:
        """Return the plural of a nationality, religion or political group."""
        word = self.nationality()
        return word if word.endswith(("ese", "ish", "ch", "s")) else word + "s"

    def honorific(self) -> str:
        """Return a title that stands before a name."""
        return self.rng.choice(word_list("honorifics"))
