"""The trend of a schedule: its evaluations in order, with drift and regressions marked.

*Drift* is a measure outside of the band that the runs before it set. The band is that of a chart of
individual values (Wheeler, *Understanding Variation*, 1993): the mean of the earlier values plus or
minus 2.66 times the mean absolute difference of successive ones, which is three standard deviations
of independent normal noise. Only runs with the same model and baseline are compared, since another
baseline has another value. A *regression* is a candidate that is shown worse, or one that passed
against this baseline before and does not pass now.

Pure: rows in, points out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any, Literal, Self

from atdp.replay.verdict import Verdict

Measure = Literal["baseline_value", "logged_reward", "coverage"]
MEASURES: Sequence[Measure] = ("baseline_value", "logged_reward", "coverage")

MIN_RUNS = 5
"""Earlier values that a band needs. With fewer, its width is mostly chance."""
MAX_RUNS = 20
"""Earlier values that a band is made of at most, so that it follows a lasting change."""
_SIGMAS = 2.66
"""3 / 1.128: three standard deviations, from the mean range of two normal values."""
_LEAST_HALF_WIDTH = 0.01
"""In units of the measure. Values that hardly ever move would otherwise mark every small change."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EvaluationRow:
    """One row of the table `evaluations`, as far as a trend shows it.

    Numbers are None where nothing was estimated.
    """

    run_id: str
    logical_time: datetime | None
    occurred_at: datetime
    verdict: str
    reason_codes: tuple[str, ...]
    model: str
    candidate: str
    baseline: str
    dataset: str
    mode: str
    margin: float
    candidate_value: float | None
    candidate_lower: float | None
    candidate_upper: float | None
    baseline_value: float | None
    baseline_lower: float | None
    baseline_upper: float | None
    difference: float | None
    difference_lower: float | None
    difference_upper: float | None
    coverage: float
    usable: int
    trajectories: int
    effective_sample_size: float | None
    logged_reward: float | None

    @classmethod
    def from_row(cls, row: dict[str, Any]) -> Self:
        """Return the row of a query that selects the fields of this class."""
        return cls(**{**row, "reason_codes": tuple(row["reason_codes"])})

    @property
    def time(self) -> datetime:
        """The tick of the schedule, else the time of publication."""
        return self.logical_time or self.occurred_at

    @property
    def threshold(self) -> float:
        """The threshold for the difference, with its sign."""
        return self.margin if self.mode == "superiority" else -self.margin


@dataclass(frozen=True, kw_only=True, slots=True)
class Band:
    """The range in which a measure is expected; both ends belong to it."""

    lower: float
    upper: float


@dataclass(frozen=True, kw_only=True, slots=True)
class TrendPoint:
    """One evaluation, with what is marked about it."""

    row: EvaluationRow
    bands: dict[Measure, Band]
    """Bands of the measures that have enough earlier values."""
    drifts: tuple[Measure, ...]
    regression: str | None
    """Why the run is a regression; None: it is none."""


def assess_trend(rows: Sequence[EvaluationRow]) -> tuple[TrendPoint, ...]:
    """Return the points of the rows, in their order, which is that of time."""
    points = []
    for number, row in enumerate(rows):
        earlier = [each for each in rows[:number] if _comparable(each, row)]
        bands = {
            measure: band for measure in MEASURES if (band := _band(earlier, measure)) is not None
        }
        points.append(
            TrendPoint(
                row=row,
                bands=bands,
                drifts=tuple(name for name, band in bands.items() if _outside(row, name, band)),
                regression=_regression(row, earlier),
            )
        )
    return tuple(points)


def _comparable(one: EvaluationRow, other: EvaluationRow) -> bool:
    return (one.model, one.baseline) == (other.model, other.baseline)


def _band(earlier: Sequence[EvaluationRow], measure: Measure) -> Band | None:
    known = [value for row in earlier if (value := _value(row, measure)) is not None][-MAX_RUNS:]
    if len(known) < MIN_RUNS:
        return None
    steps = [abs(after - before) for before, after in pairwise(known)]
    centre = sum(known) / len(known)
    half_width = max(_SIGMAS * sum(steps) / len(steps), _LEAST_HALF_WIDTH)
    return Band(lower=centre - half_width, upper=centre + half_width)


def _value(row: EvaluationRow, measure: Measure) -> float | None:
    """Return a measure of a run; None when it failed or estimated nothing."""
    if row.verdict == Verdict.ERROR:
        return None
    value: float | None = getattr(row, measure)
    return value


def _outside(row: EvaluationRow, measure: Measure, band: Band) -> bool:
    value = _value(row, measure)
    return value is not None and not band.lower <= value <= band.upper


def _regression(row: EvaluationRow, earlier: Sequence[EvaluationRow]) -> str | None:
    if row.verdict == Verdict.FAIL:
        return "shown worse than the baseline"
    before = [each.verdict for each in earlier if each.candidate == row.candidate]
    judged = [verdict for verdict in before if verdict != Verdict.ERROR]
    if row.verdict == Verdict.INCONCLUSIVE and judged and judged[-1] == Verdict.PASS:
        return "passed at the run before, and does not pass now"
    return None
