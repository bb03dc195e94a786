"""Customers who write to the order desk; some of them also write personal data.

About one in seven customers writes personal data: an e-mail address, a phone number, a card number,
sometimes a secret. Half of them do so in the first message, which the model reads, the others in a
thank-you message after the answer. Everything is drawn from a seeded generator, which keeps the
values in `CustomerStream.planted`, so that every topic and file can be searched for them later.

The values are well formed (addresses under example domains, card numbers that pass the Luhn check,
phone numbers in the national plans), and belong to no person.
"""

import random
import string
from collections.abc import Callable
from dataclasses import dataclass, field

from order_desk.order_task import ITEMS, PRICES, QUANTITIES, CustomerOrder

PERSONAL_SHARE = 0.15
"""Share of customers who write personal data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlantedValue:
    """A raw value that must not be anywhere behind governance."""

    entity: str
    value: str


@dataclass(slots=True)
class CustomerStream:
    """A stream of orders: the same `name` and `seed` give the same customers."""

    name: str
    seed: int
    personal_share: float = PERSONAL_SHARE
    planted: list[PlantedValue] = field(default_factory=list)
    """The personal values written so far."""
    _random: random.Random = field(init=False, repr=False)
    _served: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        """Start the stream."""
        self._random = random.Random(f"{self.name}/{self.seed}")  # noqa: S311 (a simulation)

    def next_order(self) -> CustomerOrder:
        """Return the next customer's order, with a task id of its own."""
        rng = self._random
        item, quantity, price = rng.choice(ITEMS), rng.choice(QUANTITIES), rng.choice(PRICES)
        message, thanks = f"{quantity} {item}?", None
        if rng.random() < self.personal_share:
            if rng.random() < 0.5:
                message = f"{message} {self._personal_sentence()}"
            else:
                thanks = f"thanks! {self._personal_sentence()}"
        self._served += 1
        return CustomerOrder(
            task_id=f"{self.name}-{self.seed}-{self._served:05d}",
            item=item,
            quantity=quantity,
            price=price,
            message=message,
            thanks=thanks,
        )

    def orders(self, count: int) -> list[CustomerOrder]:
        """Return the next `count` orders."""
        return [self.next_order() for _ in range(count)]

    def _personal_sentence(self) -> str:
        rng = self._random
        (make,) = rng.choices(list(_SENTENCES), weights=list(_SENTENCES.values()))
        entity, value, sentence = make(rng)
        self.planted.append(PlantedValue(entity=entity, value=value))
        return sentence


def luhn_digit(digits: str) -> str:
    """Return the check digit that completes `digits` to a card number (ISO/IEC 7812-1, annex B)."""
    total = 0
    for place, digit in enumerate(reversed(digits)):
        doubled = int(digit) * (2 if place % 2 == 0 else 1)
        total += doubled - 9 if doubled > 9 else doubled
    return str(-total % 10)


def _email(rng: random.Random) -> tuple[str, str, str]:
    first = rng.choice(("ada", "ben", "chloe", "dev", "emma", "farid", "grace", "hugo"))
    last = rng.choice(("adler", "brandt", "costa", "diaz", "egger", "frost", "gupta", "hale"))
    number = rng.randrange(1000, 10_000)
    domain = rng.choice(("example.com", "example.org", "example.net"))
    value = f"{first}.{last}{number}@{domain}"
    return "EMAIL_ADDRESS", value, f"mail me at {value}"


def _phone(rng: random.Random) -> tuple[str, str, str]:
    area = rng.choice(("212", "415", "617", "206"))
    value = f"+1 {area}-{rng.randrange(620, 999)}-{rng.randrange(1000, 10_000)}"
    return "PHONE_NUMBER", value, f"call me at {value}"


def _card(rng: random.Random) -> tuple[str, str, str]:
    digits = "4" + "".join(rng.choices(string.digits, k=14))
    value = digits + luhn_digit(digits)
    return "CREDIT_CARD", value, f"my card is {value}"


def _secret(rng: random.Random) -> tuple[str, str, str]:
    value = "ghp_" + "".join(rng.choices(string.ascii_letters + string.digits, k=36))
    return "SECRET", value, f"our api token is {value}"


_SENTENCES: dict[Callable[[random.Random], tuple[str, str, str]], int] = {
    _email: 45,
    _phone: 25,
    _card: 20,
    _secret: 10,
}
"""The sentences with personal data, with their weights."""
