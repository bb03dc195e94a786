"""Always-valid bounds: tests whose result may be looked at any number of times.

A fixed-sample test that is repeated until it is significant stops a harmless canary in three cases
of ten (measured, 50 looks). A *confidence sequence* holds at all times at once. The one used here
is the one-sided normal mixture of Robbins, in the form of Howard, Ramdas, McAuliffe and Sekhon
2021 (their package `confseq` gives the reference constants of the tests). For a sum S with
intrinsic time v (the variance so far), it bounds S by the s for which

    log 2 + ½ log(ρ / (v + ρ)) + s² / (2 (v + ρ)) + log Φ(s / sqrt(v + ρ)) = log(1/α)

The mixing parameter ρ only chooses the v at which the bound is tightest.
"""

import math
from statistics import NormalDist

_NORMAL = NormalDist()


def best_rho(v: float, alpha: float) -> float:
    """Return the ρ whose two-sided bound is nearly tightest at intrinsic time `v`.

    Howard et al., equation 63. For a one-sided bound at level α, give `alpha` = 2 α.
    """
    log = 2.0 * math.log(1.0 / alpha)
    return v / (log + math.log(1.0 + log))


def one_sided_log_mixture(s: float, v: float, *, rho: float) -> float:
    """Return the log of the one-sided (half-normal) mixture supermartingale.

    It increases in `s`.
    """
    scale = math.sqrt(v + rho)
    tail = max(_NORMAL.cdf(s / scale), 1e-300)
    return 0.5 * math.log(4.0 * rho / (v + rho)) + s * s / (2.0 * (v + rho)) + math.log(tail)


def one_sided_bound(v: float, *, rho: float, alpha: float) -> float:
    """Return the `s` at which the one-sided mixture reaches 1/alpha, to a precision of 1e-10."""
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
    """Return the p-value of a split of sessions under the planned share.

    The test is χ² with one degree of freedom.
    """
    total = canary + stable
    if total == 0:
        return 1.0
    expected = total * share
    if expected in (0.0, float(total)):
        return 1.0 if canary == expected else 0.0
    chi2 = (canary - expected) ** 2 / expected + (canary - expected) ** 2 / (total - expected)
    return math.erfc(math.sqrt(chi2 / 2.0))
