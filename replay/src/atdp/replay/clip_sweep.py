"""Estimates with weights cut at rising limits: how much they depend on the few largest weights.

A cut biases the estimate and lowers its variance (Ionides 2008). Where the estimates stay the same
over the limits, the cut does not matter; where they move until the last limit, the result depends
on a few trajectories. The sweep is shown and decides nothing.
"""

from dataclasses import dataclass

import numpy as np

from atdp.replay.diagnostics import effective_sample_size
from atdp.replay.estimators import LoggedReturns

CLIPS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
"""Limits of the weight of a trajectory."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ClippedEstimate:
    """Weighted importance sampling with weights cut at `clip`.

    `ess` is the effective sample size of the candidate's weights after the cut.
    """

    clip: float
    candidate: float
    baseline: float
    ess: float


def clip_sweep(candidate: LoggedReturns, baseline: LoggedReturns) -> tuple[ClippedEstimate, ...]:
    """Return the estimates at each limit of `CLIPS`, from the same trajectories."""
    return tuple(
        ClippedEstimate(
            clip=clip,
            candidate=_clipped(candidate, clip),
            baseline=_clipped(baseline, clip),
            ess=effective_sample_size(np.minimum(candidate.uncut.log_weight, np.log(clip))),
        )
        for clip in CLIPS
    )


def _clipped(logged: LoggedReturns, clip: float) -> float:
    log_weight = np.minimum(logged.uncut.log_weight, np.log(clip))
    return float(np.average(logged.returns, weights=np.exp(log_weight - log_weight.max())))
