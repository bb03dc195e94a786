"""Bounds for the ratio of two totals over the same tasks (Fieller 1954).

The ratio is at least r exactly when the mean of `candidate - r * baseline` is at least 0, so that a
test of a mean of paired values is a test of the ratio. The ratio is that of the totals and not of
the tasks, since the totals are what is paid.
"""

import math

from atdp.replay.gates.paired_tests import Floats, p_above

_BISECTIONS = 60
_DOUBLINGS = 40


def ratio_contrast(pairs: Floats, ratio: float) -> Floats:
    """Return the contrast of each row (candidate, baseline); its mean is 0 at the true ratio."""
    return pairs[:, 0] - ratio * pairs[:, 1]


def ratio_lower_bound(pairs: Floats, alpha: float) -> float:
    """Return the greatest ratio that the true one is shown to exceed; 0 where there is none."""
    high = float(pairs[:, 0].sum() / pairs[:, 1].sum())
    low = 0.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        if p_above(ratio_contrast(pairs, middle), 0.0) <= alpha:
            low = middle
        else:
            high = middle
    return low


def ratio_upper_bound(pairs: Floats, alpha: float) -> float:
    """Return the smallest ratio that the true one is shown to be below; infinite without one."""
    low = float(pairs[:, 0].sum() / pairs[:, 1].sum())
    high = max(low, 1.0)
    for _ in range(_DOUBLINGS):
        if p_above(-ratio_contrast(pairs, high), 0.0) <= alpha:
            break
        high *= 2
    else:
        return math.inf
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        if p_above(-ratio_contrast(pairs, middle), 0.0) <= alpha:
            high = middle
        else:
            low = middle
    return high
