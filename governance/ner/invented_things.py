"""Invented goods, quantities, prices, versions and identifiers: words that belong to no person."""

import json
from collections.abc import Callable, Mapping

from governance.ner.package_lists import common_words, pictured_things
from governance.ner.plain_text import ordinary_words
from governance.ner.value_source import ValueSource
from governance.ner.word_lists import word_list


class InventedThings(ValueSource):
    """Words and numbers of the texts that agents read and write all day."""

    def thing(self) -> str:
        """Return a thing that can be counted or bought."""
        form = self.rng.random()
        if form < 0.5:
            return self.rng.choice(word_list("goods"))
        if form < 0.8:
            return self.rng.choice(pictured_things())
        return self.word()

    def things(self) -> str:
        """Return the plural of a thing."""
        thing = self.thing()
        if thing.endswith("s"):
            return thing
        if thing.endswith(("x", "ch", "sh")):
            return f"{thing}es"
        return f"{thing[:-1]}ies" if thing[-2:] in {"ry", "ty", "dy"} else f"{thing}s"

    def word(self) -> str:
        """Return a common word of English."""
        return self.rng.choice(self.rng.choice([common_words, ordinary_words])())

    def quantity(self) -> str:
        """Return a number of things, small ones more often."""
        rng = self.rng
        form = rng.random()
        if form < 0.06:
            return rng.choice(["one", "two", "three", "four", "five", "six", "ten", "twelve"])
        if form < 0.9:
            return str(rng.randint(1, 12 if form < 0.7 else 99))
        return str(rng.choice([rng.randint(100, 1_800), rng.randint(2_100, 9_999)]))

    def money(self) -> str:
        """Return a price with its currency."""
        rng = self.rng
        number = f"{rng.choice([9, 99, 999, 9_999]) * rng.random():.2f}"
        number = number if rng.random() < 0.6 else number.partition(".")[0]
        return rng.choice(["${0}", "{0} {1}", "€{0}", "{0}{1}", "£{0}", "{1} {0}", "{0}"]).format(
            number, rng.choice(word_list("currencies"))
        )

    def version(self) -> str:
        """Return the version of a program."""
        rng = self.rng
        form = rng.choice(["{0}.{1}", "v{0}", "{0}.{1}.{2}", "v{0}.{1}.{2}", "{0}.{1}rc{2}"])
        return form.format(rng.randint(0, 30), rng.randint(0, 20), rng.randint(0, 9))

    def tool(self) -> str:
        """Return the name of a tool or a function."""
        words = [self.word() for _ in range(self.rng.choice([1, 2, 2, 3]))]
        form = self.rng.random()
        if form < 0.6:
            return "_".join(words)
        if form < 0.8:
            return "".join(each.capitalize() for each in words)
        return self.rng.choice(["-", "."]).join(words)

    def json_text(self) -> str:
        """Return a small object of JSON."""
        rng = self.rng
        makers = (self.thing, self.quantity, self.word, self.tool, lambda: rng.randint(0, 999))
        fields = {self.word(): rng.choice(makers)() for _ in range(rng.randint(1, 4))}
        return json.dumps(fields)

    def thing_makers(self) -> Mapping[str, Callable[[], str]]:
        """Return the maker of each slot whose values are no personal data."""
        rng = self.rng
        return {
            "thing": self.thing, "things": self.things, "n": self.quantity, "money": self.money,
            "version": self.version, "tool": self.tool, "json": self.json_text,
            "word": self.word,
            "Word": lambda: self.word().capitalize(),
            "WORD": lambda: self.word().upper(),
            "Thing": lambda: self.thing().title(),
            "currency": lambda: rng.choice(word_list("currencies")),
            "unit": lambda: rng.choice(word_list("measures")),
            "span": lambda: rng.choice(word_list("short_times")),
            "color": lambda: rng.choice(word_list("colors")),
            "size": lambda: rng.choice(word_list("sizes")),
            "model": lambda: rng.choice(word_list("models")),
            "trade": lambda: rng.choice(word_list("trade_words")),
            "signal": lambda: rng.choice(word_list("signals")),
        }  # fmt: skip
