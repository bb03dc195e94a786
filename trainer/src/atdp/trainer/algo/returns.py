"""Credit by turn: discounted returns of the rewards that turns and trajectories have.

The return of turn k of n is `G_k = sum over j >= k of gamma^(j - k) r_j` (Sutton and Barto,
Reinforcement Learning, 2nd edition, equation 3.8), where r_j is the reward of turn j, and the
reward of the whole trajectory is added at the last turn. So a turn is credited with what came after
it and not with what came before. With gamma = 1 and without rewards of turns, every return is the
reward of the trajectory.

AReaL computes the same recurrence, over the order in which calls were recorded
(`apply_reward_discount`). There, as here, a turn without a reward adds nothing to the sum; a
trajectory without any reward has no returns, which is not the same as returns of 0.
"""

from collections.abc import Iterable, Sequence
from typing import Literal

LARGEST_RETURN = 1e12
"""Largest size of a return that is compared. Sums of the squares of a billion of them are finite in
float32, which losses are computed in; above it a variance may be infinite and advantages 0 or NaN.
"""

Credit = Literal["trajectory", "turn"]
"""`trajectory`: every turn is credited with the trajectory's reward. `turn`: with its return."""


def discounted_returns(
    turn_rewards: Sequence[float | None], outcome: float | None, *, gamma: float = 1.0
) -> tuple[float, ...]:
    """Return G_k of every turn; `outcome` is the trajectory's reward, None when it has none."""
    returns: list[float] = []
    following = outcome or 0.0
    for number, reward in enumerate(reversed(turn_rewards)):
        discount = gamma if number else 1.0  # the outcome is received with the last turn
        following = (reward or 0.0) + discount * following
        returns.append(following)
    return tuple(reversed(returns))


def are_comparable(returns: Iterable[Iterable[float]]) -> bool:
    """Return whether all returns are numbers that statistics stay finite with."""
    # Written so that a value that is not a number is not comparable.
    return all(abs(value) <= LARGEST_RETURN for member in returns for value in member)
