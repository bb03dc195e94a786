"""Advantages within a group of trajectories of the same task, and whitening.

=======  ======================================  =================================================
grpo     (R_i - mean) / (std + eps), std by n-1  Shao et al. 2402.03300; eps 1e-5 as in AReaL
dr       R_i - mean                              Liu et al. 2503.20783 (Dr.GRPO)
rloo     R_i - mean of the others                Ahmadian et al. 2402.14740; = n/(n-1) (R_i - mean)
=======  ======================================  =================================================

With credit by turn a member has one return per turn, G_ik. Its advantages are the same formulas
with G_ik in the place of R_i, where `mean` is the mean over the members of their mean return, and
the variance the mean over turns of the squared deviations, summed over the members and divided by
n-1. So every member weighs the same, however many turns it took: a mean over all turns would favour
long trajectories.

A group of one has no other member to compare with, and in a group with equal rewards no member is
better than another: both have no signal. They are set aside before; here their advantages are 0,
never the raw reward.
"""

import math
from collections.abc import Sequence
from typing import Literal, assert_never

import numpy as np
import numpy.typing as npt

AdvantageKind = Literal["grpo", "dr", "rloo"]

Returns = Sequence[float]
"""The returns of one trajectory: one per turn, or a single one that holds for all its turns."""

EPSILON = 1e-5
"""Keeps the advantages finite in groups with a tiny spread of rewards. Larger values shrink the
advantages of binary rewards noticeably (1e-2: by 2 %)."""


def advantages(rewards: Sequence[float], kind: AdvantageKind = "grpo") -> npt.NDArray[np.float64]:
    """Return the advantage of every member of one group, float64, in the order of `rewards`.

    The advantages sum to zero.
    """
    return np.array([of_turn for (of_turn,) in turn_advantages([(r,) for r in rewards], kind)])


def turn_advantages(
    returns: Sequence[Returns], kind: AdvantageKind = "grpo"
) -> list[tuple[float, ...]]:
    """Return the advantages of every member's turns.

    The members' mean advantages sum to zero.
    """
    count = len(returns)
    if count < 2 or is_uniform(returns):
        return [(0.0,) * len(member) for member in returns]
    values = [np.asarray(member, np.float64) for member in returns]
    mean = np.mean([member.mean() for member in values])
    centred = [member - mean for member in values]
    match kind:
        case "grpo":
            variance = sum(float((member**2).mean()) for member in centred) / (count - 1)
            result = [member / (math.sqrt(variance) + EPSILON) for member in centred]
        case "dr":
            result = centred
        case "rloo":
            # The mean of the others is (n * mean - own mean) / (n - 1).
            result = [member + member.mean() / (count - 1) for member in centred]
        case _:
            assert_never(kind)
    return [tuple(member.tolist()) for member in result]


def whitened(
    advantages_of: Sequence[Returns], weights: Sequence[Sequence[int]]
) -> list[tuple[float, ...]]:
    """Return advantages of the turns of a batch with mean 0 and variance 1 over its tokens.

    `weights` are the numbers of loss tokens of the turns. This is the normalisation of REINFORCE++
    (Hu 2501.03262, equation 9), where every token of the batch has one advantage. The mean of a
    batch contains each member's own reward, which shrinks the expected gradient by about 1/n, and
    the division by the standard deviation makes its length depend on the rewards that were drawn.
    A batch without spread has advantages of 0.
    """
    flat = np.array([value for member in advantages_of for value in member], np.float64)
    mass = np.array([count for member in weights for count in member], np.float64)
    if not mass.sum():
        return [tuple(member) for member in advantages_of]
    mean = float(np.average(flat, weights=mass))
    spread = math.sqrt(float(np.average((flat - mean) ** 2, weights=mass)))
    return [
        tuple((value - mean) / (spread + EPSILON) for value in member) for member in advantages_of
    ]


def is_uniform(returns: Sequence[Returns]) -> bool:
    """Return True when all returns are equal."""
    return len({value for member in returns for value in member}) <= 1
