"""Judges a running canary by the success of its sessions against the stable version's, at any time, any number of times.

The difference in success rate d has information v = 1 / Var(d); S = d v then behaves like a
Brownian motion with drift d, so the one-sided normal mixture (`sequential`) bounds d from both
sides at every look at once. PASS when d is surely above -margin, FAIL when it is surely below 0,
otherwise INCONCLUSIVE: *hold* (a human decides) when waiting cannot help, else simply not yet. A
split of sessions that does not fit the share holds too: the comparison would be of something else.
Missing outcomes never pass.
"""

import math
from dataclasses import dataclass

from atdp.control.errors import ControlError
from atdp.control.sequential import best_rho, one_sided_bound, sample_ratio_p
from atdp.replay import Verdict


@dataclass(frozen=True, kw_only=True)
class CanaryPolicy:
    """Thresholds of one canary; recorded when it starts and not changed while it runs."""

    margin: float = 0.05
    """Loss of success rate that is tolerated, >= 0."""
    alpha: float = 0.05
    """One-sided error of PASS and of FAIL each, over all looks together."""
    success_from: float = 0.5
    """A session whose reward is at least this is a success: right for rewards of 0 and 1."""
    min_sessions: int = 30
    """Sessions with an outcome that each side needs before anything is concluded."""
    max_sessions: int = 2000
    """Sessions with an outcome on each side after which waiting is given up."""
    tune_at_sessions: int = 300
    """Sessions a side at which the bound is tightest; any value is valid."""
    min_outcome_share: float = 0.5
    """Share of each side's sessions that must have an outcome before PASS."""
    min_ratio_p: float = 0.001
    """A split of sessions less likely than this under the promised share holds the canary."""

    def __post_init__(self) -> None:
        fine = (
            self.margin >= 0
            and math.isfinite(self.success_from)
            and 0 < self.alpha < 0.5
            and 2 <= self.min_sessions <= self.max_sessions
            and self.tune_at_sessions >= 2
            and 0 <= self.min_outcome_share <= 1
            and 0 <= self.min_ratio_p < 1
        )
        if not fine:
            raise ControlError(f"these canary thresholds mean nothing: {self}")


@dataclass(frozen=True, kw_only=True)
class CanaryCounts:
    """What happened at the current share.

    `sessions` were assigned, `judged` of them have an outcome so far.
    """

    canary_sessions: int
    canary_judged: int
    canary_successes: int
    stable_sessions: int
    stable_judged: int
    stable_successes: int

    def __post_init__(self) -> None:
        for side, s, j, w in (
            ("canary", self.canary_sessions, self.canary_judged, self.canary_successes),
            ("stable", self.stable_sessions, self.stable_judged, self.stable_successes),
        ):
            if not 0 <= w <= j <= s:
                raise ControlError(
                    f"counts of the {side} side are impossible: {w} successes of {j} judged of {s} sessions"
                )


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """Verdict with the bounds it rests on. `hold`: waiting will not help, somebody has to look."""

    verdict: Verdict
    hold: bool
    reason_codes: tuple[str, ...]
    difference: float | None
    lower: float | None
    upper: float | None


def judge(counts: CanaryCounts, *, share: float, policy: CanaryPolicy) -> Judgement:
    """Judge at one look. Pure; the same counts give the same judgement."""
    n1, n0 = counts.canary_judged, counts.stable_judged
    if n1 == 0 or n0 == 0:
        return _undecided(("no_outcomes",), hold=False)
    difference = counts.canary_successes / n1 - counts.stable_successes / n0
    v = 1.0 / (_variance(counts.canary_successes, n1) + _variance(counts.stable_successes, n0))
    tuned = policy.tune_at_sessions / (
        2 * 0.25
    )  # information of that many sessions a side at a rate of one half
    half = one_sided_bound(v, rho=best_rho(tuned, 2 * policy.alpha), alpha=policy.alpha) / v
    lower, upper = difference - half, difference + half

    def verdict(what: Verdict, *codes: str, hold: bool = False) -> Judgement:
        return Judgement(
            verdict=what,
            hold=hold,
            reason_codes=codes,
            difference=difference,
            lower=lower,
            upper=upper,
        )

    if (
        sample_ratio_p(counts.canary_sessions, counts.stable_sessions, share=share)
        < policy.min_ratio_p
    ):
        return verdict(Verdict.INCONCLUSIVE, "sample_ratio_mismatch", hold=True)
    if min(n1, n0) < policy.min_sessions:
        return verdict(Verdict.INCONCLUSIVE, "few_sessions")
    if upper < 0.0:
        return verdict(Verdict.FAIL, "success_falls")
    spent = min(n1, n0) >= policy.max_sessions
    if (
        n1 < policy.min_outcome_share * counts.canary_sessions
        or n0 < policy.min_outcome_share * counts.stable_sessions
    ):
        return verdict(Verdict.INCONCLUSIVE, "missing_outcomes", hold=spent)
    if lower > -policy.margin:
        return verdict(Verdict.PASS, "success_holds")
    return verdict(Verdict.INCONCLUSIVE, "sessions_spent" if spent else "undecided", hold=spent)


def _variance(successes: int, n: int) -> float:
    """Variance of a success rate, with one success and one failure added so that it is never 0."""
    p = (successes + 1) / (n + 2)
    return p * (1 - p) / n


def _undecided(codes: tuple[str, ...], *, hold: bool) -> Judgement:
    return Judgement(
        verdict=Verdict.INCONCLUSIVE,
        hold=hold,
        reason_codes=codes,
        difference=None,
        lower=None,
        upper=None,
    )
