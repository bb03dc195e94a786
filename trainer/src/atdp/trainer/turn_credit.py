"""The returns of a logged trajectory under a rule of credit."""

from atdp.trainer.algo.returns import Credit, discounted_returns
from atdp.trainer.trajectory import TrainingTrajectory


def has_reward(trajectory: TrainingTrajectory, credit: Credit) -> bool:
    """Return True when the trajectory has a reward that the rule of credit uses."""
    if trajectory.reward is not None:
        return True
    return credit == "turn" and any(turn.reward is not None for turn in trajectory.turns)


def returns_of(
    trajectory: TrainingTrajectory, credit: Credit, discount: float
) -> tuple[float, ...]:
    """Return the return of every turn, or a single value that holds for all of them.

    The trajectory has a reward that the rule uses.
    """
    if credit == "trajectory":
        return (0.0 if trajectory.reward is None else trajectory.reward,)
    rewards = [turn.reward for turn in trajectory.turns]
    return discounted_returns(rewards, trajectory.reward, gamma=discount)
