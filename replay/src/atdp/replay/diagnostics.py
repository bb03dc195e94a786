"""Diagnostics of importance weights: whether they carry enough information for a conclusion.

The effective sample size ESS = (Σ w)² / Σ w² (Kong 1992) is the number of on-policy trajectories
that give as much information as the weighted sample; for i.i.d. decisions it falls as n (1 +
χ²)^-T. The largest weight's share shows an estimate that depends on a single trajectory. When the
model is right, the weights average 1; when they do not, the behaviour log-probabilities or the
support are wrong.
"""

from dataclasses import dataclass

import numpy as np

from atdp.replay.estimators import Floats, LoggedReturns

_LARGEST_LOG_WEIGHT = 340.0
"""Largest logarithm in the mean before the cut; its weight squared is still a finite float."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WeightDiagnostics:
    """Diagnostics of one policy's weights.

    `ess_by_decision` has one entry for each decision index; the last entry is that of the whole
    trajectories.
    """

    trajectories: int
    ess: float
    ess_by_decision: tuple[float, ...]
    max_weight_share: float
    mean_weight: float
    mean_weight_stderr: float
    weight_limit: float | None
    """The limit to which larger weights were cut; None where there was no limit."""
    cut: int
    """Trajectories whose weight at the end was cut."""
    whole_mean_weight: float
    """The mean before the cut. Wrong behaviour log-probabilities make it large, and the cut would
    hide them."""
    whole_mean_weight_stderr: float

    @property
    def cut_text(self) -> str:
        """The number of cut weights, as the end of a clause; empty for none."""
        noun = "weight" if self.cut == 1 else "weights"
        return f", {self.cut} {noun} cut to {self.weight_limit:.3g}" if self.cut else ""

    @property
    def least_ess(self) -> float:
        """The smallest effective sample size at any decision."""
        return min(self.ess_by_decision)


def effective_sample_size(log_weight: Floats) -> float:
    """Return (Σ w)² / Σ w² of weights given as logarithms, shape (n,); between 1 and n."""
    weight = np.exp(log_weight - log_weight.max())
    return float(weight.sum() ** 2 / (weight**2).sum())


def diagnose(logged: LoggedReturns) -> WeightDiagnostics:
    """Return the diagnostics of the cumulative weights, which may be cut.

    The mean weight is infinite when a weight is too large for a float.
    """
    cumulative = logged.cumulative_log_weight
    final = cumulative[:, -1]
    relative = np.exp(final - final.max())
    with np.errstate(over="ignore", invalid="ignore"):
        weight = np.exp(final)
        stderr = _standard_error(weight)
    whole = np.exp(np.minimum(logged.uncut.log_weight, _LARGEST_LOG_WEIGHT))
    return WeightDiagnostics(
        trajectories=int(final.size),
        ess=effective_sample_size(final),
        ess_by_decision=tuple(
            effective_sample_size(cumulative[:, t]) for t in range(cumulative.shape[1])
        ),
        max_weight_share=float(relative.max() / relative.sum()),
        mean_weight=float(weight.mean()),
        mean_weight_stderr=stderr if np.isfinite(stderr) else float("inf"),
        weight_limit=None if np.isinf(logged.weight_limit) else logged.weight_limit,
        cut=int((logged.uncut.log_weight > final).sum()),
        whole_mean_weight=float(whole.mean()),
        whole_mean_weight_stderr=_standard_error(whole),
    )


def _standard_error(weights: Floats) -> float:
    return float(weights.std(ddof=1) / np.sqrt(weights.size)) if weights.size > 1 else float("inf")
