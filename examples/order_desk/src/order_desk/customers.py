"""Customers who write to the order desk, some of them with more about themselves than the desk needs.

About one in seven customers leaves personal data: an e-mail address, a phone number, a card number,
now and then a secret. Half of them in the first message (which the model reads), the others in a
word of thanks after the answer. Everything is drawn from a seeded generator that keeps what it
planted, so that afterwards every topic and file can be searched for the very values:
`Customers.planted`.

The values are well formed (addresses under example domains, card numbers that pass the Luhn check,
phone numbers in the national plans), and belong to nobody.
"""

import random
import string
from collections.abc import Callable
from dataclasses import dataclass, field

from order_desk.world import ITEMS, PRICES, QUANTITIES, Order

PERSONAL_SHARE = 0.15
"""Share of customers who leave personal data."""


@dataclass(frozen=True, kw_only=True)
class Planted:
    """A raw value that must never be seen behind the gate."""

    entity: str
    value: str


@dataclass
class Customers:
    """A stream of orders: the same `name` and `seed` give the same customers."""

    name: str
    seed: int
    personal_share: float = PERSONAL_SHARE
    planted: list[Planted] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Start the stream."""
        self._random = random.Random(f"{self.name}/{self.seed}")  # noqa: S311 (a simulation)
        self._served = 0

    def next_order(self) -> Order:
        """The next customer's order, with a task id of its own."""
        rng = self._random
        item, quantity, price = rng.choice(ITEMS), rng.choice(QUANTITIES), rng.choice(PRICES)
        message, thanks = f"{quantity} {item}?", None
        if rng.random() < self.personal_share:
            if rng.random() < 0.5:
                message = f"{message} {self._personal_sentence()}"
            else:
                thanks = f"thanks! {self._personal_sentence()}"
        self._served += 1
        return Order(
            task_id=f"{self.name}-{self.seed}-{self._served:05d}",
            item=item,
            quantity=quantity,
            price=price,
            message=message,
            thanks=thanks,
        )

    def orders(self, count: int) -> list[Order]:
        """The next `count` orders."""
        return [self.next_order() for _ in range(count)]

    def _personal_sentence(self) -> str:
        rng = self._random
        (make,) = rng.choices(list(_SENTENCES), weights=list(_SENTENCES.values()))
        entity, value, sentence = make(rng)
        self.planted.append(Planted(entity=entity, value=value))
        return sentence


def luhn_digit(digits: str) -> str:
    """The check digit that makes `digits` a valid card number (ISO/IEC 7812-1, annex B)."""
    total = 0
    for place, digit in enumerate(reversed(digits)):
        doubled = int(digit) * (2 if place % 2 == 0 else 1)
        total += doubled - 9 if doubled > 9 else doubled
    return str(-total % 10)


def _email(rng: random.Random) -> tuple[str, str, str]:
    first = rng.choice(("ada", "ben", "chloe", "dev", "emma", "farid", "grace", "hugo"))
    last = rng.choice(("adler", "brandt", "costa", "diaz", "egger", "frost", "gupta", "hale"))
    value = f"{first}.{last}{rng.randrange(1000, 10_000)}@{rng.choice(('example.com', 'example.org', 'example.net'))}"
    return "EMAIL_ADDRESS", value, f"mail me at {value}"


def _phone(rng: random.Random) -> tuple[str, str, str]:
    value = f"+1 {rng.choice(('212', '415', '617', '206'))}-{rng.randrange(620, 999)}-{rng.randrange(1000, 10_000)}"
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
"""What customers give away, with weights."""
