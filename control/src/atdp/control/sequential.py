"""Always-valid bounds for tests that are looked at again and again.

Peeking at a fixed-sample test until it is significant stops a harmless canary three times in ten
(measured, 50 looks). A *confidence sequence* holds at all times at once. Used here: the normal
mixture of Robbins, in the form of Howard, Ramdas, McAuliffe and Sekhon 2021 (their `confseq` gives
the reference constants of the tests). For a sum S with intrinsic time v (the variance so far), and
a mixing parameter ρ that only chooses at which v the bound is tightest:

- two-sided |S| < sqrt((v + ρ) ln((v + ρ) / (ρ α²)))
- one-sided log 2 + ½ log(ρ / (v + ρ)) + s² / (2 (v + ρ)) + log Φ(s / sqrt(v + ρ)) < log(1/α)
"""

import math
from statistics import NormalDist

_NORMAL = NormalDist()


def best_rho(v: float, alpha: float) -> float:
    """The ρ whose two-sided bound is (nearly) tightest at intrinsic time `v` (Howard et al., eq.

    63).
    """
    log = 2.0 * math.log(1.0 / alpha)
    return v / (log + math.log(1.0 + log))


def two_sided_bound(v: float, *, rho: float, alpha: float) -> float:
    """Bound of |S| at intrinsic time `v`, at all times at once with probability 1 - alpha."""
    return math.sqrt((v + rho) * math.log((v + rho) / (rho * alpha * alpha)))


def two_sided_log_mixture(s: float, v: float, *, rho: float) -> float:
    """Log of the two-sided mixture supermartingale."""
    return 0.5 * math.log(rho / (v + rho)) + s * s / (2.0 * (v + rho))


def one_sided_log_mixture(s: float, v: float, *, rho: float) -> float:
    """Log of the one-sided (half-normal) mixture supermartingale; increasing in `s`."""
    scale = math.sqrt(v + rho)
    tail = max(_NORMAL.cdf(s / scale), 1e-300)
    return 0.5 * math.log(4.0 * rho / (v + rho)) + s * s / (2.0 * (v + rho)) + math.log(tail)


def one_sided_bound(v: float, *, rho: float, alpha: float) -> float:
    """The `s` at which the one-sided mixture reaches 1/alpha, to 1e-10."""
    low, high = 0.0, 1.0
    while one_sided_log_mixture(high, v, rho=rho) < math.log(1.0 / alpha):
        high *= 2.0
    while high - low > 1e-10 * max(1.0, high):
        middle = (low + high) / 2.0
        if one_sided_log_mixture(middle, v, rho=rho) < math.log(1.0 / alpha):
            low = middle
        else:
            high = middle
    return high


def sample_ratio_p(canary: int, stable: int, *, share: float) -> float:
    """P-value of the split of sessions under the promised share (χ² with one degree of freedom)."""
    total = canary + stable
    if total == 0:
        return 1.0
    expected = total * share
    if expected in (0.0, float(total)):
        return 1.0 if canary == expected else 0.0
    chi2 = (canary - expected) ** 2 / expected + (canary - expected) ** 2 / (total - expected)
    return math.erfc(math.sqrt(chi2 / 2.0))
