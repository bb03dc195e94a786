"""A success rate and its confidence interval.

Attempts at the same task succeed or fail together, because a task is hard or easy. Eight attempts
at each of 80 tasks give less information about the next task than 640 sessions of as many tasks. An
interval that takes them as independent is too narrow (it covers the truth three times in four
instead of 19 in 20). So where a task was attempted more than once, the sessions count as their
effective number: sessions divided by the design effect, the ratio of the variance between tasks to
that of independent sessions (Rao & Scott 1992, Biometrics 48, 577, section 2). Wilson's score
interval of the effective counts is as useful near 0 and 1 as that of plain counts (Franco et al.
2019, J. Surv. Stat. Methodol. 7, 334). Two deviations, both on the safe side: a design effect below
1 counts as 1; and where all sessions succeeded or all failed, which shows no variance, a task
counts as one session.
"""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

_Z = 1.959964
"""The normal quantile of a two-sided 95 % interval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """Successes among sessions, with a 95 % interval.

    `tasks` is empty where every session had a task of its own.
    """

    successes: int
    sessions: int
    tasks: tuple[tuple[int, int], ...] = ()
    """Successes and sessions of each task."""

    @classmethod
    def of(cls, sessions: Iterable[tuple[str, bool]]) -> Self:
        """Return the rate of sessions, each given as its task and its success."""
        attempts, successes = Counter[str](), Counter[str]()
        for task, succeeded in sessions:
            attempts[task] += 1
            successes[task] += succeeded
        own = all(count == 1 for count in attempts.values())
        return cls(
            successes=successes.total(),
            sessions=attempts.total(),
            tasks=()
            if own
            else tuple((successes[task], count) for task, count in attempts.items()),
        )

    @property
    def value(self) -> float | None:
        """Share of successes; None without sessions."""
        return self.successes / self.sessions if self.sessions else None

    @property
    def shown(self) -> str:
        """The value for people: a percentage, or `none`."""
        return "none" if self.value is None else f"{self.value:.1%}"

    @property
    def effective_sessions(self) -> float:
        """The number of independent sessions that would give the same information."""
        if not self.tasks or self.value is None:
            return self.sessions
        p, clusters = self.value, len(self.tasks)
        if p in (0.0, 1.0) or clusters == 1:
            return clusters
        squares = sum((successes - sessions * p) ** 2 for successes, sessions in self.tasks)
        variance = clusters / (clusters - 1) * squares / self.sessions**2
        return self.sessions / max(1.0, self.sessions * variance / (p * (1 - p)))

    @property
    def bounds(self) -> tuple[float, float]:
        """The interval; from 0 to 1 without sessions."""
        if self.value is None:
            return (0.0, 1.0)
        z, n, p = _Z, self.effective_sessions, self.value
        middle = (p + z * z / (2 * n)) / (1 + z * z / n)
        half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
        return (middle - half, middle + half)

    def to_json(self) -> dict[str, float | int | None]:
        """Return the JSON form; `success` is null without sessions."""
        lower, upper = self.bounds
        return {
            "success": self.value,
            "lower": lower,
            "upper": upper,
            "successes": self.successes,
            "sessions": self.sessions,
            "tasks": len(self.tasks) or self.sessions,
        }


def is_at_least(rate: Rate, factor: float, base: Rate) -> bool:
    """Return True when `rate` is `factor` times `base` or more.

    False when either rate is undefined (no sessions), or when `rate` is 0.
    """
    return (
        bool(rate.value)
        and base.value is not None
        and rate.successes / rate.sessions >= factor * base.value
    )
