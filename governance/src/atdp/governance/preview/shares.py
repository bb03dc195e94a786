"""Shares with 95 % intervals, for samples whose unit is the trajectory.

Trajectories are drawn, not model calls: the calls of one trajectory resemble each other, and an
interval that counts each call as independent is too narrow. So the effective number of calls is
estimated from the variance between trajectories (linearised ratio estimator) and corrected for the
degrees of freedom: Korn and Graubard, "Confidence intervals for proportions with small expected
number of positive counts estimated from survey data", Survey Methodology 24 (1998), 193-201. The
interval itself is Wilson's (1927) with that number, which Franco et al. recommend for clustered
samples (Journal of Survey Statistics and Methodology 7 (2019), 334-364).

Deviation: the effective number is never more than it would be if all calls of a trajectory were
alike (Kish 1965: the square of the number of calls over the sum of the squares by trajectory). The
variance between few trajectories is often estimated too low, and then intervals missed the share in
one of eight samples. Samples are drawn without replacement; the correction for that is left out.
Both make intervals wider, never narrower.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_Z: Final = 1.959963984540054
"""The 97.5 % quantile of the normal distribution."""
_LEAST: Final = 4
"""Trajectories below which the interval is everything from 0 to 1."""


@dataclass(frozen=True, slots=True)
class Share:
    """`count` of `of` units. The bounds are None when nothing was left out, or there is no unit."""

    count: int
    of: int
    lower: float | None = None
    upper: float | None = None

    @property
    def value(self) -> float | None:
        """The share; None of nothing."""
        return self.count / self.of if self.of else None


def share(clusters: Sequence[tuple[int, int]], *, sampled: bool) -> Share:
    """Return the share of units that count, from (counting units, units) of each trajectory.

    `sampled`: the trajectories are a sample of more; otherwise there is no interval.
    """
    filled = [(count, units) for count, units in clusters if units]
    count, units = sum(each[0] for each in filled), sum(each[1] for each in filled)
    if not units or not sampled:
        return Share(count, units)
    return Share(count, units, *_interval(filled, count / units, units))


def _interval(clusters: Sequence[tuple[int, int]], value: float, units: int) -> tuple[float, float]:
    number = len(clusters)
    if number < _LEAST:
        return 0.0, 1.0
    squares = sum((count - value * size) ** 2 for count, size in clusters)
    variance = number / (number - 1) * squares / units**2
    alike = units**2 / sum(size**2 for _, size in clusters)
    # No variance between trajectories tells nothing beyond their number.
    effective = value * (1 - value) / variance if variance > 0 else alike
    effective = min(effective, alike) * (_Z / _t_quantile(max(alike - 1, 1.0))) ** 2
    centre = value + _Z**2 / (2 * effective)
    spread = _Z * math.sqrt(value * (1 - value) / effective + _Z**2 / (4 * effective**2))
    scale = 1 + _Z**2 / effective
    return max(0.0, (centre - spread) / scale), min(1.0, (centre + spread) / scale)


def _t_quantile(freedom: float) -> float:
    """Return the 97.5 % quantile of Student's t (Abramowitz and Stegun, 26.7.5)."""
    z = _Z
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )
    return z + terms[0] / freedom + terms[1] / freedom**2 + terms[2] / freedom**3
