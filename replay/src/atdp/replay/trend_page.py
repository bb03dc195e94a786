"""The trend of a schedule as one self-contained HTML page, without scripts and requests.

The same points give the same bytes.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from atdp.replay.page_template import page_template
from atdp.replay.trend import MIN_RUNS, OUTSIDE, TrendPoint
from atdp.replay.trend_plots import trend_plot
from atdp.replay.verdict import Verdict

MEASURE_TEXTS = {
    "baseline_value": "value of the baseline",
    "logged_reward": "logged reward",
    "coverage": "coverage",
}


def render_trend(
    schedule: str, points: Sequence[TrendPoint], links: Mapping[str, str] | None = None
) -> str:
    """Return the page; `links` has the addresses of the reports by run id."""
    return page_template("trend.html.j2", number=_number).render(
        schedule=schedule,
        points=points,
        newest=list(reversed(points)),
        verdicts=Counter(point.row.verdict for point in points),
        order=[verdict.value for verdict in Verdict],
        regressions=sum(point.regression is not None for point in points),
        drifts=sum(bool(point.drifts) for point in points),
        measures=MEASURE_TEXTS,
        min_runs=MIN_RUNS,
        outside=OUTSIDE,
        links=links or {},
        plot=trend_plot(points) if points else None,
    )


def _number(value: float | None, digits: int = 3, *, signed: bool = False) -> str:
    if value is None:
        return "n/a"
    sign = "+" if signed else ""
    return f"{value:{sign}.{digits}f}"
