"""Advantages within a group of trajectories of the same task.

=======  ======================================  =================================================
grpo     (R_i - mean) / (std + eps), std by n-1  Shao et al. 2402.03300; eps 1e-5 as in AReaL
dr       R_i - mean                              Liu et al. 2503.20783 (Dr.GRPO)
rloo     R_i - mean of the others                Ahmadian et al. 2402.14740; = n/(n-1) (R_i - mean)
=======  ======================================  =================================================

A group of one has no other member to compare with, and in a group with equal rewards no member is
better than another: both have no signal. They are set aside before; here their advantages are 0,
never the raw reward.
"""

from collections.abc import Sequence
from typing import Literal, assert_never

import numpy as np
import numpy.typing as npt

AdvantageKind = Literal["grpo", "dr", "rloo"]

EPSILON = 1e-5
"""Keeps the advantages finite in groups with a tiny spread of rewards. Larger values shrink the
advantages of binary rewards noticeably (1e-2: by 2 %)."""


def advantages(rewards: Sequence[float], kind: AdvantageKind = "grpo") -> npt.NDArray[np.float64]:
    """Return the advantage of every member of one group, float64, in the order of `rewards`.

    The advantages sum to zero.
    """
    values = np.asarray(rewards, np.float64)
    if len(values) < 2 or is_uniform(rewards):
        return np.zeros(len(values))
    centred: npt.NDArray[np.float64] = values - values.mean()
    if kind == "grpo":
        return np.asarray(centred / (values.std(ddof=1) + EPSILON))
    if kind == "dr":
        return centred
    if kind == "rloo":
        return np.asarray(centred * (len(values) / (len(values) - 1)))
    assert_never(kind)


def is_uniform(rewards: Sequence[float]) -> bool:
    """Return True when all rewards are equal."""
    return len(set(rewards)) <= 1
