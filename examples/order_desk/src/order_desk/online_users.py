"""The users of the order desk: who comes, who rates, and how often a rating is wrong.

Every user asks for one thing at a time, and every request is a task of its own. Most people seldom
rate and some do often; one rating in ten is wrong, because people misread a total. One more user, a
saboteur, comes often and rates every answer wrongly. Everything is drawn from a seeded generator.
"""

import random
from dataclasses import dataclass, field

from order_desk.customers import CustomerStream
from order_desk.order_task import CustomerOrder, judge

SABOTEUR = "mallory"

_OFTEN = 3.0
"""People who rate often do so this many times as often as the average."""
_OFTEN_SHARE = 0.1
"""Share of people who rate often."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserVisit:
    """One user's visit; `rates` and `wrongly` are decided before, whatever the answer is."""

    number: int
    person: str
    order: CustomerOrder
    rates: bool
    wrongly: bool

    @property
    def of_saboteur(self) -> bool:
        """True when the saboteur comes."""
        return self.person == SABOTEUR

    def rating(self, answer: str | None) -> bool | None:
        """Return whether the user rates the answer up; None when the user does not rate."""
        if not self.rates:
            return None
        return (judge(self.order, answer) == 1.0) is not self.wrongly


@dataclass(slots=True)
class UserCrowd:
    """A stream of visits."""

    seed: int
    people: int
    rated_share: float
    wrong_share: float
    saboteur_share: float
    """Share of all visits that are the saboteur's."""
    _random: random.Random = field(init=False, repr=False)
    _customers: CustomerStream = field(init=False, repr=False)
    _served: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        """Start the stream."""
        self._random = random.Random(f"users/{self.seed}")  # noqa: S311 (a simulation)
        self._customers = CustomerStream("chat", self.seed)

    def next_visit(self) -> UserVisit:
        """Return the next visit."""
        rng = self._random
        self._served += 1
        order = self._customers.next_order()
        if rng.random() < self.saboteur_share:
            return UserVisit(
                number=self._served, person=SABOTEUR, order=order, rates=True, wrongly=True
            )
        person = rng.randrange(self.people)
        return UserVisit(
            number=self._served,
            person=f"user-{person:04d}",
            order=order,
            rates=rng.random() < self._rates(person),
            wrongly=rng.random() < self.wrong_share,
        )

    def pause_s(self, per_s: float) -> float:
        """Return the time until the next visit, of a Poisson process."""
        return self._random.expovariate(per_s)

    def _rates(self, person: int) -> float:
        often = person < _OFTEN_SHARE * self.people
        seldom = (1 - _OFTEN * _OFTEN_SHARE) / (1 - _OFTEN_SHARE)
        return self.rated_share * (_OFTEN if often else seldom)
