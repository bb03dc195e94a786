"""Intervals and one-sided bounds for values of policies.

Trials of one task resemble each other, so the unit of resampling is the *task* (cluster), and
candidate and baseline are compared on the same resampled tasks (paired). Two kinds:

- approximate: percentile bootstrap over tasks, for ratio estimators. Honest only with a decent
  effective sample size, which the caller checks first (`atdp.replay.gate`).
- guaranteed at any n, for means of values >= 0: empirical Bernstein (Maurer and Pontil 2009,
  theorem 4) over weights cut at a constant (cutting only lowers a non-negative mean, Thomas,
  Theocharous, Ghavamzadeh 2015), and betting (Waudby-Smith and Ramdas 2024, one-sided capital
  process), which needs no upper bound of the weights at all.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from atdp.replay.estimators import Floats, ratio_of_sums


@dataclass(frozen=True, kw_only=True)
class Interval:
    """An estimate with one-sided bounds at level 1 - alpha each (so a two-sided interval at 1 - 2 alpha)."""

    estimate: float
    lower: float
    upper: float


def task_codes(tasks: Sequence[str]) -> npt.NDArray[np.int64]:
    """Cluster number of each trajectory, shape (n,), numbered in sorted order of the task names."""
    return np.unique(np.asarray(tasks, dtype=object).astype(str), return_inverse=True)[1].astype(
        np.int64
    )


def sums_by_task(values: Floats, codes: npt.NDArray[np.int64]) -> Floats:
    """Sum rows (n, k) within each task: (tasks, k)."""
    sums = np.zeros((int(codes.max()) + 1, values.shape[1]))
    np.add.at(sums, codes, values)
    return sums


def resampled_counts(clusters: int, *, resamples: int, seed: int) -> Floats:
    """How often each cluster is drawn in each bootstrap replicate, (resamples, clusters); same seed, same draws."""
    rng = np.random.Generator(np.random.PCG64(seed))
    return rng.multinomial(clusters, np.full(clusters, 1.0 / clusters), size=resamples).astype(
        np.float64
    )


def bootstrap_ratio(
    terms: tuple[Floats, Floats], codes: npt.NDArray[np.int64], counts: Floats
) -> tuple[float, Floats]:
    """Estimate and bootstrap replicates (resamples,) of Σ_t Σ num / Σ den for terms of shape (n, T)."""
    numerator, denominator = (sums_by_task(part, codes) for part in terms)
    with np.errstate(invalid="ignore", divide="ignore"):
        replicates = ((counts @ numerator) / (counts @ denominator)).sum(axis=1)
    return ratio_of_sums(*terms), replicates


def percentile_interval(estimate: float, replicates: Floats, *, alpha: float) -> Interval:
    """Percentile bootstrap interval with `alpha` left out on each side; undefined replicates are left out."""
    usable = replicates[np.isfinite(replicates)]
    if usable.size == 0:
        return Interval(estimate=estimate, lower=-math.inf, upper=math.inf)
    lower, upper = np.quantile(usable, [alpha, 1.0 - alpha])
    return Interval(estimate=estimate, lower=float(lower), upper=float(upper))


def mean_by_task(values: Floats, codes: npt.NDArray[np.int64]) -> Floats:
    """Mean of values (n,) within each task, (tasks,): independent units for the guaranteed bounds."""
    return np.asarray(np.bincount(codes, weights=values) / np.bincount(codes), dtype=np.float64)


def empirical_bernstein_lower(values: Floats, *, upper: float, alpha: float) -> float:
    """Lower bound of the mean of independent values in [0, upper], valid with probability 1 - alpha."""
    n = values.size
    if n < 2:
        return 0.0
    log = math.log(2.0 / alpha)
    slack = math.sqrt(2.0 * float(values.var(ddof=1)) * log / n) + 7.0 * upper * log / (
        3.0 * (n - 1)
    )
    return max(0.0, float(values.mean()) - slack)


def betting_lower(values: Floats, *, alpha: float, seed: int = 0) -> float:
    """Lower bound of the mean of independent values >= 0 (no upper bound needed), valid with probability 1 - alpha.

    For each m on a grid a gambler starts with capital 1 and bets against "the mean is at most m";
    by Ville's inequality the capital reaches 1/alpha with probability at most alpha if that is
    true. Bets are predictable (equation 26 there, from past variance) and at most 1/(2m). The order
    of the values matters, so it is drawn from the seed.
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
    for _ in range(
        60
    ):  # capital falls as m rises (each factor does), so the rejected set is [0, L)
        middle = (low + high) / 2.0
        low, high = (middle, high) if rejects(middle) else (low, middle)
    return low
