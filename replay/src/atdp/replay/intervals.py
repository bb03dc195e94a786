"""Bounds of a mean that hold at any sample size.

Attempts at one task resemble each other, so the independent unit is the *task* (cluster). The
bounds are for means of values >= 0: empirical Bernstein (Maurer and Pontil 2009, theorem 4) over
weights cut at a constant (cutting only lowers a non-negative mean: Thomas, Theocharous,
Ghavamzadeh 2015), and betting (Waudby-Smith and Ramdas 2024, one-sided capital process), which
needs no upper bound of the weights. `atdp.replay.paired_intervals` has the narrower, approximate
intervals.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from atdp.replay.estimators import Floats

TaskCodes = npt.NDArray[np.int64]
"""Cluster number of each trajectory, shape (n,)."""

_BISECTIONS = 60
"""Halvings of the search interval; more than a float's 53 bits."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Interval:
    """An estimate with one-sided bounds at level 1 - alpha each.

    Together they are a two-sided interval at level 1 - 2 alpha.
    """

    estimate: float
    lower: float
    upper: float


def task_codes(tasks: Sequence[str]) -> TaskCodes:
    """Return the cluster number of each trajectory, shape (n,), in sorted order of task names."""
    return np.unique(np.asarray(tasks, dtype=object).astype(str), return_inverse=True)[1].astype(
        np.int64
    )


def sums_by_task(values: Floats, codes: TaskCodes) -> Floats:
    """Return the sums of rows (n, k) within each task, shape (tasks, k)."""
    sums = np.zeros((int(codes.max()) + 1, values.shape[1]))
    np.add.at(sums, codes, values)
    return sums


def mean_by_task(values: Floats, codes: TaskCodes) -> Floats:
    """Return the mean of values (n,) within each task, shape (tasks,).

    These means are the independent units for the guaranteed bounds.
    """
    return np.asarray(np.bincount(codes, weights=values) / np.bincount(codes), dtype=np.float64)


def empirical_bernstein_lower(values: Floats, *, upper: float, alpha: float) -> float:
    """Return a lower bound of the mean of independent values in [0, upper].

    It holds with probability 1 - alpha.
    """
    n = values.size
    if n < 2:
        return 0.0
    log = math.log(2.0 / alpha)
    slack = math.sqrt(2.0 * float(values.var(ddof=1)) * log / n) + 7.0 * upper * log / (
        3.0 * (n - 1)
    )
    return max(0.0, float(values.mean()) - slack)


def betting_lower(values: Floats, *, alpha: float, seed: int = 0) -> float:
    """Return a lower bound of the mean of independent values >= 0.

    It holds with probability 1 - alpha and needs no upper bound of the values. For each m, a
    gambler starts with capital 1 and bets against the statement that the mean is at most m. If the
    statement is true, the capital reaches 1/alpha with probability at most alpha, by Ville's
    inequality. Bets are predictable (equation 26 of the paper, from past variance) and at most
    1/(2m). The order of the values matters, so it is drawn from the seed.
    """
    n = values.size
    if n < 2 or not np.isfinite(values).all():
        return 0.0
    x = np.random.Generator(np.random.PCG64(seed)).permutation(values)
    count = np.arange(1, n + 1)
    past_mean = (0.5 + np.cumsum(x)) / (count + 1)
    past_variance = (0.25 + np.cumsum((x - past_mean) ** 2)) / (count + 1)
    variance = np.concatenate([[0.25], past_variance[:-1]])
    bet = np.sqrt(2.0 * math.log(1.0 / alpha) / (np.maximum(variance, 1e-12) * n))

    def rejects(m: float) -> bool:
        stake = np.minimum(bet, 0.5 / m)
        return bool(np.cumsum(np.log1p(stake * (x - m))).max() >= math.log(1.0 / alpha))

    low, high = 0.0, float(x.mean())
    if high <= 0.0 or not rejects(high * 1e-9):
        return 0.0
    # The capital falls as m rises, because each factor does, so the rejected set is [0, L).
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if rejects(middle) else (low, middle)
    return low
