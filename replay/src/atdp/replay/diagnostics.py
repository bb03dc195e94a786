"""Whether importance weights carry enough information to conclude anything.

ESS = (Σ w)² / Σ w² (Kong 1992) is how many on-policy trajectories the weighted sample is worth; for
i.i.d. decisions it falls as n (1 + χ²)^-T. The largest weight's share shows an estimate that rests
on a single trajectory. Under a right model the weights average 1; where they do not, behaviour
log-probabilities or support are wrong.
"""

from dataclasses import dataclass

import numpy as np

from atdp.replay.estimators import Floats, LoggedReturns


@dataclass(frozen=True, kw_only=True)
class WeightDiagnostics:
    """Health of one policy's weights.

    `ess_by_decision` has one entry per decision index, the last is the whole.
    """

    trajectories: int
    ess: float
    ess_by_decision: tuple[float, ...]
    max_weight_share: float
    mean_weight: float
    mean_weight_stderr: float

    @property
    def least_ess(self) -> float:
        """The smallest effective sample size at any decision."""
        return min(self.ess_by_decision)


def effective_sample_size(log_weight: Floats) -> float:
    """(Σ w)² / Σ w² of weights given as logarithms, shape (n,); between 1 and n."""
    weight = np.exp(log_weight - log_weight.max())
    return float(weight.sum() ** 2 / (weight**2).sum())


def diagnose(logged: LoggedReturns) -> WeightDiagnostics:
    """Diagnostics of the cumulative weights; mean weight is infinite where a weight overflows a float."""
    cumulative = logged.cumulative_log_weight
    final = cumulative[:, -1]
    relative = np.exp(final - final.max())
    with np.errstate(over="ignore", invalid="ignore"):
        weight = np.exp(final)
        stderr = weight.std(ddof=1) / np.sqrt(weight.size) if weight.size > 1 else np.inf
    return WeightDiagnostics(
        trajectories=int(final.size),
        ess=effective_sample_size(final),
        ess_by_decision=tuple(
            effective_sample_size(cumulative[:, t]) for t in range(cumulative.shape[1])
        ),
        max_weight_share=float(relative.max() / relative.sum()),
        mean_weight=float(weight.mean()),
        mean_weight_stderr=float(stderr) if np.isfinite(stderr) else float("inf"),
    )
