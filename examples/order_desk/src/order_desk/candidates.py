"""Candidates of the demo and their results, as values for the summary and the report."""

from collections.abc import Sequence
from dataclasses import dataclass

from order_desk.rate import Rate, is_at_least
from order_desk.uplift import Uplift


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """The estimate that replay made for a candidate before it served any customer."""

    estimate: float
    lower: float
    upper: float
    unbiased: float
    """Importance sampling without self-normalisation. It is noisier, but not too high when the log
    lacks the new behaviour of the candidate."""
    baseline: float
    """The same estimator's value of the version that was live."""
    uplift: Uplift
    """The difference that decided the verdict."""
    effective_sample_size: float
    trajectories: int

    def to_json(self) -> dict[str, object]:
        """Return the JSON form."""
        return {
            "success": self.estimate,
            "lower": self.lower,
            "upper": self.upper,
            "unbiased": self.unbiased,
            "baseline": self.baseline,
            "uplift": self.uplift.to_json(),
            "effective_sample_size": self.effective_sample_size,
            "trajectories": self.trajectories,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryOutcome:
    """The success of the candidate with customers, and of the live version at the same time.

    Every session is a task of its own. Rates of an undecided canary may be of no session at all.
    """

    share: float
    candidate: Rate
    live: Rate
    verdict: str
    outcome: str
    """`promoted` or `rolled back`."""
    margin: float
    """The loss of success that the canary tolerated."""

    @property
    def uplift(self) -> Uplift | None:
        """The measured difference; None when a side has no session."""
        return Uplift.between(self.candidate, self.live)

    @property
    def shown(self) -> str:
        """The statement about the candidate that its sessions support."""
        uplift = self.uplift
        if uplift is None:
            return "nothing, since no session was judged"
        if uplift.lower > 0:
            return "better"
        if uplift.upper < 0:
            return "worse"
        if uplift.lower > -self.margin:
            return f"not worse by {100 * self.margin:g} points"
        return "neither better nor worse"

    def to_json(self) -> dict[str, object]:
        """Return the JSON form."""
        return {
            "share": self.share,
            "verdict": self.verdict,
            "outcome": self.outcome,
            "margin": self.margin,
            "shown": self.shown,
            "uplift": None if self.uplift is None else self.uplift.to_json(),
            "candidate": self.candidate.to_json(),
            "live": self.live.to_json(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One candidate from training to canary; `canary` is None when the release gate refused it."""

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
    canary: CanaryOutcome | None = None

    @property
    def promoted(self) -> bool:
        """True when its canary was promoted."""
        return self.canary is not None and self.canary.outcome == "promoted"

    def to_json(self) -> dict[str, object]:
        """Return the JSON form of the candidate's entry in `summary.json`."""
        prediction, canary = self.prediction, self.canary
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
            "prediction": None if prediction is None else prediction.to_json(),
            "canary": None if canary is None else canary.to_json(),
            "measured": None if canary is None else canary.candidate.value,
        }


def has_learned_enough(before: Rate, candidates: Sequence[Candidate], factor: float) -> bool:
    """Return True when the last promoted candidate's success is `factor` times that before."""
    served = [each.canary.candidate for each in candidates if each.canary and each.promoted]
    return bool(served) and is_at_least(served[-1], factor, before)
