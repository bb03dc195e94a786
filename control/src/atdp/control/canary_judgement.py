"""The judgement of a running canary by the success of its sessions.

The canary is compared with the stable version, at any time and any number of times. Let d be the
difference in success rate and v = 1 / Var(d) its information. Then S = d v behaves like a Brownian
motion with drift d, and the one-sided normal mixture (`confidence_sequence`) bounds d from both
sides at all looks at once.

The verdict is PASS when the lower bound of d is above -margin, FAIL when its upper bound is below
0, and otherwise INCONCLUSIVE. After an INCONCLUSIVE verdict the canary usually waits for more
sessions. When waiting cannot help, the judgement *holds* the canary, and a person decides. A split
of sessions that does not fit the share also holds it, because the compared groups then differ in
more than the version. Missing outcomes never count towards PASS.
"""

import math
from dataclasses import dataclass

from atdp.control.confidence_sequence import best_rho, one_sided_bound, sample_ratio_p
from atdp.control.errors import ControlError
from atdp.replay import Verdict


@dataclass(frozen=True, kw_only=True, slots=True)
class CanaryPolicy:
    """Thresholds of one canary; recorded when it starts and not changed while it runs."""

    margin: float = 0.05
    """Loss of success rate that is tolerated, >= 0."""
    alpha: float = 0.05
    """One-sided error of PASS and of FAIL each, over all looks together."""
    success_from: float = 0.5
    """Least mean reward of a session that counts as a success; the default fits rewards of 0
    and 1."""
    min_sessions: int = 30
    """Sessions with an outcome that each side needs before anything is concluded."""
    max_sessions: int = 2000
    """Sessions with an outcome on each side after which the canary is held instead of waiting."""
    tune_at_sessions: int = 300
    """Sessions of each side at which the bound is tightest; the bound is valid for any value."""
    min_outcome_share: float = 0.5
    """Share of each side's sessions that must have an outcome before PASS."""
    min_ratio_p: float = 0.001
    """Least p-value of the split of sessions under the planned share; below it the canary is
    held."""

    def __post_init__(self) -> None:
        valid = (
            0 <= self.margin < 1
            and math.isfinite(self.success_from)
            and 0 < self.alpha < 0.5
            and 2 <= self.min_sessions <= self.max_sessions
            and self.tune_at_sessions >= 2
            and 0 <= self.min_outcome_share <= 1
            and 0 <= self.min_ratio_p < 1
        )
        if not valid:
            raise ControlError(f"these thresholds of a canary are outside their ranges: {self}")


@dataclass(frozen=True, kw_only=True, slots=True)
class CanaryCounts:
    """Sessions at the current share, by version.

    `sessions` counts the assigned sessions, `judged` those with an outcome so far, `successes`
    those of the judged ones that succeeded.
    """

    canary_sessions: int
    canary_judged: int
    canary_successes: int
    stable_sessions: int
    stable_judged: int
    stable_successes: int

    def __post_init__(self) -> None:
        for side, sessions, judged, successes in (
            ("canary", self.canary_sessions, self.canary_judged, self.canary_successes),
            ("stable", self.stable_sessions, self.stable_judged, self.stable_successes),
        ):
            if not 0 <= successes <= judged <= sessions:
                raise ControlError(
                    f"the counts of the {side} version are impossible: "
                    f"{successes} successes of {judged} judged of {sessions} sessions"
                )


@dataclass(frozen=True, kw_only=True, slots=True)
class Judgement:
    """A verdict with the bounds it rests on.

    `hold` is true when waiting will not help and a person has to decide. The difference and its
    bounds are None when a side has no outcome.
    """

    verdict: Verdict
    hold: bool
    reason_codes: tuple[str, ...]
    difference: float | None
    lower: float | None
    upper: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class _Difference:
    """The difference in success rate, canary minus stable, with its always-valid bounds."""

    estimate: float
    lower: float
    upper: float


def judge_canary(counts: CanaryCounts, *, share: float, policy: CanaryPolicy) -> Judgement:
    """Judge the canary at one look. Pure: the same counts give the same judgement."""
    if counts.canary_judged == 0 or counts.stable_judged == 0:
        return Judgement(
            verdict=Verdict.INCONCLUSIVE,
            hold=False,
            reason_codes=("no_outcomes",),
            difference=None,
            lower=None,
            upper=None,
        )
    difference = _difference(counts, policy)
    verdict, code, hold = _verdict(counts, difference, share=share, policy=policy)
    return Judgement(
        verdict=verdict,
        hold=hold,
        reason_codes=(code,),
        difference=difference.estimate,
        lower=difference.lower,
        upper=difference.upper,
    )


def _verdict(
    counts: CanaryCounts, difference: _Difference, *, share: float, policy: CanaryPolicy
) -> tuple[Verdict, str, bool]:
    """Return the verdict, its reason code, and whether the canary is held."""
    ratio_p = sample_ratio_p(counts.canary_sessions, counts.stable_sessions, share=share)
    if ratio_p < policy.min_ratio_p:
        return Verdict.INCONCLUSIVE, "sample_ratio_mismatch", True
    judged = min(counts.canary_judged, counts.stable_judged)
    if judged < policy.min_sessions:
        return Verdict.INCONCLUSIVE, "few_sessions", False
    if difference.upper < 0.0:
        return Verdict.FAIL, "success_falls", False
    spent = judged >= policy.max_sessions
    if (
        counts.canary_judged < policy.min_outcome_share * counts.canary_sessions
        or counts.stable_judged < policy.min_outcome_share * counts.stable_sessions
    ):
        return Verdict.INCONCLUSIVE, "missing_outcomes", spent
    if difference.lower > -policy.margin:
        return Verdict.PASS, "success_holds", False
    return Verdict.INCONCLUSIVE, "sessions_spent" if spent else "undecided", spent


def _difference(counts: CanaryCounts, policy: CanaryPolicy) -> _Difference:
    canary, stable = counts.canary_judged, counts.stable_judged
    estimate = counts.canary_successes / canary - counts.stable_successes / stable
    v = 1.0 / (
        _variance(counts.canary_successes, canary) + _variance(counts.stable_successes, stable)
    )
    # The information of that many sessions of each side at a success rate of one half.
    tuned = policy.tune_at_sessions / (2 * 0.25)
    half = one_sided_bound(v, rho=best_rho(tuned, 2 * policy.alpha), alpha=policy.alpha) / v
    return _Difference(estimate=estimate, lower=estimate - half, upper=estimate + half)


def _variance(successes: int, n: int) -> float:
    """Return the variance of a success rate, with one success and one failure added.

    The addition keeps the variance above 0.
    """
    p = (successes + 1) / (n + 2)
    return p * (1 - p) / n
