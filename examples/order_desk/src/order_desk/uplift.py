"""The difference in success between a candidate and the version that was live, with an interval."""

import math
from dataclasses import dataclass
from typing import Self

from order_desk.rate import Rate


@dataclass(frozen=True, slots=True, kw_only=True)
class Uplift:
    """A difference in success rate, candidate minus live version, with its interval."""

    value: float
    lower: float
    upper: float

    @classmethod
    def between(cls, candidate: Rate, live: Rate) -> Self | None:
        """Return the measured difference; None when a side has no session.

        The interval (95 %) is Newcombe's hybrid of the two score intervals (1998, Statistics in
        Medicine 17, 873, method 10).
        """
        if candidate.value is None or live.value is None:
            return None
        low, high = candidate.bounds
        live_low, live_high = live.bounds
        value = candidate.value - live.value
        return cls(
            value=value,
            lower=value - math.hypot(candidate.value - low, live_high - live.value),
            upper=value + math.hypot(high - candidate.value, live.value - live_low),
        )

    @property
    def shown(self) -> str:
        """The difference for people, in percentage points."""
        return f"{_points(self.value)} [{_points(self.lower)}, {_points(self.upper)}]"

    def to_json(self) -> dict[str, float]:
        """Return the JSON form."""
        return {"value": self.value, "lower": self.lower, "upper": self.upper}


def _points(share: float) -> str:
    return f"{100 * share:+.1f}"
