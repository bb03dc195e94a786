"""The plot of a trend as inline SVG: values, difference and coverage of successive evaluations."""

from collections.abc import Sequence

from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from atdp.replay.plot_frame import (
    BAD,
    BASELINE,
    CANDIDATE,
    GOOD,
    INK,
    QUIET,
    drawn_figure,
    to_svg,
)
from atdp.replay.trend import Measure, TrendPoint
from atdp.replay.verdict import Verdict

VERDICT_COLOURS = {
    Verdict.PASS.value: GOOD,
    Verdict.FAIL.value: BAD,
    Verdict.INCONCLUSIVE.value: "#b7791f",
    Verdict.ERROR.value: "#6b21a8",
}
_DASHED = (0, (4, 3))


def trend_plot(points: Sequence[TrendPoint]) -> Markup:
    """Plot the runs from left to right, equally spaced, oldest first."""
    with drawn_figure(9.6, 7.2) as figure:
        values, difference, coverage = figure.subplots(
            3, 1, sharex=True, height_ratios=(1.4, 1.2, 0.8)
        )
        _values(values, points)
        _difference(difference, points)
        _coverage(coverage, points)
        coverage.xaxis.set_major_locator(MaxNLocator(nbins=8, integer=True))
        coverage.set_xlim(0.4, len(points) + 0.6)
        coverage.set_xlabel("number of the run, oldest first")
        for axes in (values, difference, coverage):
            axes.grid(axis="y", color="#eef1f4")
            axes.set_axisbelow(True)
        figure.legend(
            *values.get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False
        )
        return to_svg(figure, "Predicted reward, difference and coverage of successive runs")


def _values(axes: Axes, points: Sequence[TrendPoint]) -> None:
    rows = [point.row for point in points]
    _shade(axes, points, "baseline_value")
    for shift, colour, marker, name, of in (
        (-0.12, BASELINE, "s", "baseline", [_interval(row, "baseline_value") for row in rows]),
        (0.12, CANDIDATE, "o", "candidate", [_interval(row, "candidate_value") for row in rows]),
    ):
        for x, interval in enumerate(of, 1):
            _upright(axes, x + shift, interval, colour, marker)
        axes.plot([], [], marker, color=colour, label=name)
    axes.plot([], [], color=QUIET, linewidth=6, alpha=0.4, label="band of earlier runs")
    _ring(axes, points, "baseline_value")
    axes.plot([], [], "o", color="none", markeredgecolor=BAD, markersize=11, label="outside")
    axes.set_title("Predicted reward")


def _difference(axes: Axes, points: Sequence[TrendPoint]) -> None:
    for x, point in enumerate(points, 1):
        colour = VERDICT_COLOURS.get(point.row.verdict, INK)
        _upright(axes, x, _interval(point.row, "difference"), colour, "D")
        if point.regression is not None:
            axes.axvspan(x - 0.4, x + 0.4, color=BAD, alpha=0.1, linewidth=0)
    thresholds = [point.row.threshold for point in points]
    axes.step(
        range(1, len(points) + 1),
        thresholds,
        where="mid",
        color=BAD,
        linewidth=1.0,
        linestyle=_DASHED,
    )
    axes.axhline(0.0, color="#cbd2d9", linewidth=0.8, zorder=0)
    axes.set_title("Difference by verdict (dashed: threshold, shaded: regression)")


def _coverage(axes: Axes, points: Sequence[TrendPoint]) -> None:
    _shade(axes, points, "coverage")
    shares = [point.row.coverage for point in points]
    axes.plot(range(1, len(points) + 1), shares, "o-", color=INK, markersize=4, linewidth=1.0)
    _ring(axes, points, "coverage")
    axes.set_ylim(-0.05, 1.05)
    axes.set_title("Coverage: share of trajectories with a valid weight")


def _interval(row: object, name: str) -> tuple[float | None, float | None, float | None]:
    """Return estimate, lower and upper bound of a number of a run."""
    stem = name.removesuffix("_value")
    return getattr(row, name), getattr(row, f"{stem}_lower"), getattr(row, f"{stem}_upper")


def _upright(
    axes: Axes,
    x: float,
    interval: tuple[float | None, float | None, float | None],
    colour: str,
    marker: str,
) -> None:
    estimate, lower, upper = interval
    if lower is not None and upper is not None:
        axes.plot([x, x], [lower, upper], color=colour, linewidth=1.8, solid_capstyle="round")
    if estimate is not None:
        axes.plot([x], [estimate], marker, color=colour, markersize=5)


def _shade(axes: Axes, points: Sequence[TrendPoint], measure: Measure) -> None:
    for x, point in enumerate(points, 1):
        band = point.bands.get(measure)
        if band is not None:
            axes.fill_between(
                [x - 0.5, x + 0.5], band.lower, band.upper, color=QUIET, alpha=0.25, linewidth=0
            )


def _ring(axes: Axes, points: Sequence[TrendPoint], measure: Measure) -> None:
    """Draw a ring around each value that is outside of its band."""
    for x, point in enumerate(points, 1):
        if measure in point.drifts:
            shift = -0.12 if measure == "baseline_value" else 0.0
            value = getattr(point.row, measure)
            axes.plot([x + shift], [value], "o", color="none", markeredgecolor=BAD, markersize=11)
