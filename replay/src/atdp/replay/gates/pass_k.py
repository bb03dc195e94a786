"""pass^k: the probability that k attempts at a task all succeed, in exact arithmetic.

With c successes in n attempts, C(c, k) / C(n, k) is the share of the samples of k attempts that
have only successes; it is an unbiased estimate (tau-bench, arXiv 2406.12045, section 4). The mean
over tasks is exact as a fraction. Its band comes from resampled tasks, since attempts at one task
resemble each other.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

Counts = Sequence[tuple[int, int]]
"""Successes and attempts of each task."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PassKPoint:
    """pass^k over the tasks that have at least k attempts."""

    k: int
    tasks: int
    exact: str
    """The value as a fraction."""
    value: float
    lower: float
    upper: float


def pass_k(successes: int, attempts: int, k: int) -> Fraction:
    """Return pass^k of one task; `attempts` is at least k."""
    return Fraction(math.comb(successes, k), math.comb(attempts, k))


def pass_k_curve(
    counts: Counts, most: int, *, alpha: float, resamples: int, seed: int
) -> tuple[PassKPoint, ...]:
    """Return pass^1 to pass^most, each with a bootstrap band of level 1 - 2 alpha.

    A k that no task has enough attempts for is left out.
    """
    points = []
    for k in range(1, most + 1):
        values = [pass_k(c, n, k) for c, n in counts if n >= k]
        if not values:
            break
        mean = sum(values, Fraction(0)) / len(values)
        rng = np.random.Generator(np.random.PCG64(seed))
        drawn = rng.multinomial(len(values), np.full(len(values), 1 / len(values)), size=resamples)
        means = drawn @ np.array([float(value) for value in values]) / len(values)
        lower, upper = np.quantile(means, [alpha, 1 - alpha])
        points.append(
            PassKPoint(
                k=k,
                tasks=len(values),
                exact=f"{mean.numerator}/{mean.denominator}",
                value=float(mean),
                lower=float(lower),
                upper=float(upper),
            )
        )
    return tuple(points)
