"""Invented dates, ages and numbers of persons, and numbers that belong to no person."""

import re
from datetime import date, timedelta

from governance.ner.value_source import ValueSource
from governance.ner.word_lists import word_list


class InventedNumbers(ValueSource):
    """Dates, ages, phone numbers and other numbers."""

    def date(self) -> str:
        """Return a date in words or digits, exact or vague."""
        rng = self.rng
        day = date(1930, 1, 1) + timedelta(days=rng.randint(0, 40_000))
        form = rng.random()
        if form < 0.62:
            pattern = rng.choice(word_list("date_patterns"))
            text = day.strftime(pattern)
            return re.sub(r"\b0(\d)", r"\1", text) if rng.random() < 0.5 else text
        if form < 0.72:
            ordinal = _ordinal(day.day)
            pattern = rng.choice(
                ["{m} {d}", "{d} of {m}", "{m} {d}, {y}", "{d} {m} {y}", "the {d} of {m}"]
            )
            return pattern.format(m=day.strftime("%B"), d=ordinal, y=day.year)
        if form < 0.8:
            return (
                f"{self.clock()}" if rng.random() < 0.5 else f"{day.strftime('%A')} {self.clock()}"
            )
        number = rng.choice(["two", "three", "five", "ten", "2", "3", "6", "10", "a few", "12"])
        unit = rng.choice(["days", "weeks", "months", "years"])
        return rng.choice(word_list("vague_dates")).format(
            weekday=f"{day:%A}",
            month=f"{day:%B}",
            year=day.year,
            later=day.year + 3,
            decade=day.year // 10 * 10,
            number=number,
            unit=unit,
            iso=day.isoformat(),
            hour=f"{rng.randint(0, 23):02}",
        )

    def day_of_month(self) -> str:
        """Return a day of an unnamed month."""
        day = self.rng.randint(1, 31)
        return self.rng.choice(["the {}", "{}"]).format(_ordinal(day))

    def birthday(self) -> str:
        """Return a full date."""
        while not re.search(r"\d{4}", text := self.date()) or len(text) < 8:
            pass
        return text

    def clock(self) -> str:
        """Return a time of day."""
        rng = self.rng
        hour, minute = rng.randint(1, 12), rng.choice([0, 15, 30, 45, rng.randint(0, 59)])
        return rng.choice(word_list("times")).format(
            hour=hour, late=hour + 11, minute=f"{minute:02}", second=f"{rng.randint(0, 59):02}"
        )

    def age(self) -> str:
        """Return an age in years."""
        rng = self.rng
        if rng.random() < 0.06:
            return rng.choice(["eighteen", "twenty-five", "thirty", "forty two", "sixty", "seven"])
        return str(rng.randint(1, 99))

    def phone(self) -> str:
        """Return a phone number of any country, in any of its usual forms."""
        rng = self.rng
        if rng.random() < 0.45:
            return self.pooled("phone_number")
        return self.digits(rng.choice(word_list("phone_patterns")))

    def card(self) -> str:
        """Return a payment card number."""
        number = self.pooled("credit_card_number", "en_US")
        if self.rng.random() < 0.4 and len(number) == 16:
            return self.rng.choice([" ", "-"]).join(number[at : at + 4] for at in range(0, 16, 4))
        return number

    def account(self) -> str:
        """Return an account number, mostly an IBAN."""
        if self.rng.random() < 0.3:
            return self.digits(self.rng.choice(["########", "##########", "############"]))
        return self.pooled("iban", self.rng.choice(["de_DE", "en_GB", "fr_FR", "es_ES", "nl_NL"]))

    def identity_number(self) -> str:
        """Return a number of a person's document."""
        return self.digits(self.rng.choice(word_list("identity_patterns")))

    def reference(self) -> str:
        """Return a number that belongs to no person, such as that of an order or a version."""
        if self.rng.random() < 0.1:
            return "0x" + self.digits("########")
        # An @ stands for the character #.
        return self.digits(self.rng.choice(word_list("reference_patterns"))).replace("@", "#")


def _ordinal(day: int) -> str:
    endings = {1: "st", 2: "nd", 3: "rd", 21: "st", 22: "nd", 23: "rd", 31: "st"}
    return f"{day}{endings.get(day, 'th')}"
