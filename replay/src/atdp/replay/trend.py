"""The trend of a schedule: its evaluations in order, with drift and regressions marked.

*Drift* is a measure outside of the band that the runs before it set. The band is the prediction
interval of a further value of a normal distribution (Hahn and Meeker, *Statistical Intervals*,
1991, section 4.7): of runs that differ by chance alone, 1 % are outside for each measure. A value
that was outside by itself does not widen the bands of later runs; two in a row are a lasting
change, which they follow. Only runs with the same model and baseline are compared, since another
baseline has another value. A *regression* is a candidate that is shown worse, or one that passed
against this baseline before and does not pass now.

Pure: rows in, points out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from math import sqrt
from statistics import fmean, stdev
from typing import Any, Literal, Self

from scipy.stats import t as student

from atdp.replay.verdict import Verdict

Measure = Literal["baseline_value", "logged_reward", "coverage"]
MEASURES: Sequence[Measure] = ("baseline_value", "logged_reward", "coverage")

MIN_RUNS = 5
"""Earlier values that a band needs. With fewer, it is so wide that it shows nothing."""
MAX_RUNS = 20
"""Earlier values that a band is made of at most, so that it follows a lasting change."""
OUTSIDE = 0.01
"""Share of values outside of their band when nothing but chance is at work (measured)."""
_NOMINAL = 0.0075
"""Error of the prediction interval. That values outside of a band are left out of later bands makes
these narrower, so that more values are outside: `OUTSIDE`."""
_LEAST_HALF_WIDTH = 0.01
"""In units of the measure. Values that hardly ever move would otherwise mark every small change."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordedEvaluation:
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

    row: RecordedEvaluation
    bands: dict[Measure, Band]
    """Bands of the measures that have enough earlier values."""
    drifts: tuple[Measure, ...]
    regression: str | None
    """The reason why the run is a regression; None: it is none."""


def assess_trend(rows: Sequence[RecordedEvaluation]) -> tuple[TrendPoint, ...]:
    """Return the points of the rows, in their order, which is that of time."""
    points: list[TrendPoint] = []
    for row in rows:
        earlier = [point for point in points if _comparable(point.row, row)]
        bands = {
            measure: band
            for measure in MEASURES
            if (band := _band(_usual_values(earlier, measure))) is not None
        }
        points.append(
            TrendPoint(
                row=row,
                bands=bands,
                drifts=tuple(name for name, band in bands.items() if _outside(row, name, band)),
                regression=_regression(row, [point.row for point in earlier]),
            )
        )
    return tuple(points)


def _comparable(one: RecordedEvaluation, other: RecordedEvaluation) -> bool:
    return (one.model, one.baseline) == (other.model, other.baseline)


def _usual_values(earlier: Sequence[TrendPoint], measure: Measure) -> list[float]:
    """Return the newest values, without those that were outside of their band by themselves."""
    outside = [False, *(measure in point.drifts for point in earlier), False]
    alone = [
        own and not (before or after)
        for before, own, after in zip(outside, outside[1:], outside[2:], strict=False)
    ]
    values = [
        _value(point.row, measure)
        for point, excluded in zip(earlier, alone, strict=True)
        if not excluded
    ]
    return [value for value in values if value is not None][-MAX_RUNS:]


def _band(values: Sequence[float]) -> Band | None:
    if len(values) < MIN_RUNS:
        return None
    centre = fmean(values)
    spread = stdev(values, centre) * sqrt(1 + 1 / len(values))
    half_width = max(_quantile(len(values) - 1) * spread, _LEAST_HALF_WIDTH)
    return Band(lower=centre - half_width, upper=centre + half_width)


@cache
def _quantile(degrees: int) -> float:
    """Return the two-sided quantile of Student's t distribution for a band."""
    return float(student.ppf(1 - _NOMINAL / 2, degrees))


def _value(row: RecordedEvaluation, measure: Measure) -> float | None:
    """Return a measure of a run; None when it failed or estimated nothing."""
    if row.verdict == Verdict.ERROR:
        return None
    value: float | None = getattr(row, measure)
    return value


def _outside(row: RecordedEvaluation, measure: Measure, band: Band) -> bool:
    value = _value(row, measure)
    return value is not None and not band.lower <= value <= band.upper


def _regression(row: RecordedEvaluation, earlier: Sequence[RecordedEvaluation]) -> str | None:
    if row.verdict == Verdict.FAIL:
        return "shown worse than the baseline"
    before = [each.verdict for each in earlier if each.candidate == row.candidate]
    judged = [verdict for verdict in before if verdict != Verdict.ERROR]
    if row.verdict == Verdict.INCONCLUSIVE and judged and judged[-1] == Verdict.PASS:
        return "passed at the run before, and does not pass now"
    return None
