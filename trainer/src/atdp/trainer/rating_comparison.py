"""The comparison of rated with unrated sessions.

An unrated session is not a failure: it waits until its window has closed and is then set aside. But
people do not choose at random what they rate, and a model that learns from ratings learns from the
sessions that were rated. So a run reports whether these differ from the others in what can be seen
without a rating.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from atdp.trainer.trajectory import TrainingTrajectory

MEASURES = ("turns", "output_tokens", "tool_errors", "not_completed")
"""The measures: model calls, tokens of the model, failed tool calls, and whether the session
ended otherwise than by its completion."""

_Z_95 = 1.96
"""Standard errors in half a 95 % interval of a normal distribution."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionSums:
    """Sums over sessions, which can be added."""

    sessions: int = 0
    sums: tuple[int, ...] = (0,) * len(MEASURES)
    squares: tuple[int, ...] = (0,) * len(MEASURES)
    versions: Mapping[str, int] = field(default_factory=dict)
    """Number of sessions that each weight version had a part in."""

    @classmethod
    def of(cls, trajectories: Iterable[TrainingTrajectory]) -> "SessionSums":
        """Return the sums over trajectories."""
        values = []
        versions: Counter[str] = Counter()
        for t in trajectories:
            tokens = sum(len(turn.output_ids) for turn in t.turns)
            values.append((len(t.turns), tokens, t.tool_errors, int(t.status != "completed")))
            versions.update({version for turn in t.turns for version in turn.versions})
        columns = tuple(zip(*values, strict=True)) or ((),) * len(MEASURES)
        return cls(
            sessions=len(values),
            sums=tuple(sum(column) for column in columns),
            squares=tuple(sum(value**2 for value in column) for column in columns),
            versions=dict(sorted(versions.items())),
        )

    def __add__(self, other: "SessionSums") -> "SessionSums":
        """Return the sums over both."""
        return SessionSums(
            sessions=self.sessions + other.sessions,
            sums=tuple(a + b for a, b in zip(self.sums, other.sums, strict=True)),
            squares=tuple(a + b for a, b in zip(self.squares, other.squares, strict=True)),
            versions=dict(
                sorted((Counter(dict(self.versions)) + Counter(dict(other.versions))).items())
            ),
        )

    def mean(self, measure: str) -> float | None:
        """Return the mean of a measure; None without sessions."""
        return self.sums[MEASURES.index(measure)] / self.sessions if self.sessions else None

    def error(self, measure: str) -> float | None:
        """Return the standard error of the mean; None with fewer than two sessions."""
        if self.sessions < 2:
            return None
        number = MEASURES.index(measure)
        spread = self.squares[number] - self.sums[number] ** 2 / self.sessions
        return math.sqrt(max(spread, 0.0) / (self.sessions - 1) / self.sessions)

    def to_json(self) -> list[Any]:
        """Return the JSON form."""
        return [self.sessions, list(self.sums), list(self.squares), dict(self.versions)]

    @classmethod
    def from_json(cls, value: list[Any]) -> "SessionSums":
        """Return the sums of a JSON form; inverse of `to_json`."""
        sessions, sums, squares, versions = value
        return cls(sessions=sessions, sums=tuple(sums), squares=tuple(squares), versions=versions)


@dataclass(frozen=True, kw_only=True, slots=True)
class RatingComparison:
    """The sessions with a reward and those without."""

    rated: SessionSums = field(default_factory=SessionSums)
    unrated: SessionSums = field(default_factory=SessionSums)

    def __add__(self, other: "RatingComparison") -> "RatingComparison":
        """Return the comparison over both."""
        return RatingComparison(
            rated=self.rated + other.rated, unrated=self.unrated + other.unrated
        )

    def differing(self) -> tuple[str, ...]:
        """Return the measures whose means differ by more than chance explains in 19 of 20 cases.

        The test is Welch's with the normal distribution, so it wants some dozens of sessions.
        """
        found = []
        for measure in MEASURES:
            errors = self.rated.error(measure), self.unrated.error(measure)
            means = self.rated.mean(measure), self.unrated.mean(measure)
            if None in errors or None in means:
                continue
            gap = abs((means[0] or 0.0) - (means[1] or 0.0))
            if gap > _Z_95 * math.hypot(errors[0] or 0.0, errors[1] or 0.0):
                found.append(measure)
        return tuple(found)

    def summary(self) -> dict[str, Any]:
        """Return the means for a report."""
        return {
            name: {
                "sessions": side.sessions,
                **{measure: side.mean(measure) for measure in MEASURES},
                "versions": dict(side.versions),
            }
            for name, side in (("rated", self.rated), ("unrated", self.unrated))
        } | {"differing": list(self.differing())}

    def to_json(self) -> list[Any]:
        """Return the JSON form."""
        return [self.rated.to_json(), self.unrated.to_json()]

    @classmethod
    def from_json(cls, value: list[Any]) -> "RatingComparison":
        """Return the comparison of a JSON form; inverse of `to_json`."""
        rated, unrated = map(SessionSums.from_json, value)
        return cls(rated=rated, unrated=unrated)
