"""Rules for trajectories with tokens that follow replaced ones; `stale_logprobs` applies them.

This module does not load torch.
"""

from typing import Literal

from atdp.trainer.trajectory import TrainingTrajectory

StaleRule = Literal["recompute", "ratio-one", "skip"]


def refusal_of_stale(trajectory: TrainingTrajectory, rule: StaleRule) -> str | None:
    """Return why a rule excludes a trajectory; None when it does not."""
    stale = [turn for turn in trajectory.turns if turn.stale_from is not None]
    if not stale or rule == "ratio-one":
        return None
    if rule == "skip":
        return "tokens replaced by governance"
    if any(len(turn.versions) != 1 for turn in stale):
        return "stale log-probabilities of several weight versions"
    return None
