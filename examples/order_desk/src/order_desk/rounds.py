"""What happened in each round, as values: they become the summary, the report and `summary.json`."""

from collections.abc import Sequence
from dataclasses import dataclass

from order_desk.rate import Rate, at_least


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """What replay said about a candidate before any customer met it."""

    estimate: float
    lower: float
    upper: float
    unbiased: float
    """Importance sampling without self-normalisation: noisier, but not too high when the log lacks
    what the candidate does newly."""
    baseline: float
    """The same estimator's value of the version that was live."""
    effective_sample_size: float
    trajectories: int


@dataclass(frozen=True, kw_only=True)
class Canary:
    """How the candidate did with real customers, beside the live version at the same time.

    Every session is a task of its own. Rates of an undecided canary may be of no session at all.
    """

    share: float
    candidate: Rate
    live: Rate
    verdict: str
    outcome: str
    """`promoted` or `rolled back`."""


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """One candidate's way. `canary` is None when the gate did not open."""

    round: int
    version: str
    parent: str
    deliberately_bad: bool
    steps: int
    trajectories_used: int
    training_reward: tuple[float, ...]
    """Mean reward of the groups trained on, by step."""
    verdict: str
    reasons: tuple[str, ...]
    prediction: Prediction | None
    canary: Canary | None = None

    def to_json(self) -> dict[str, object]:
        """JSON form of the round's entry in `summary.json`."""
        found, canary = self.prediction, self.canary
        return {
            "round": self.round,
            "candidate": self.version,
            "parent": self.parent,
            "deliberately_bad": self.deliberately_bad,
            "steps": self.steps,
            "trajectories_used": self.trajectories_used,
            "training_reward": list(self.training_reward),
            "verdict": self.verdict,
            "reasons": list(self.reasons),
            "prediction": None
            if found is None
            else {
                "success": found.estimate,
                "lower": found.lower,
                "upper": found.upper,
                "unbiased": found.unbiased,
                "baseline": found.baseline,
                "effective_sample_size": found.effective_sample_size,
                "trajectories": found.trajectories,
            },
            "canary": None
            if canary is None
            else {
                "share": canary.share,
                "verdict": canary.verdict,
                "outcome": canary.outcome,
                "candidate": canary.candidate.to_json(),
                "live": canary.live.to_json(),
            },
            "measured": None if canary is None else canary.candidate.value,
        }


def learnt_enough(before: Rate, candidates: Sequence[Candidate], factor: float) -> bool:
    """Whether customers of the last promoted candidate were served at least `factor` times as well as those before."""
    served = [
        each.canary.candidate
        for each in candidates
        if each.canary and each.canary.outcome == "promoted"
    ]
    return bool(served) and at_least(served[-1], factor, before)
