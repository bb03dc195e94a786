"""Plots of a report as inline SVG.

The same report gives the same bytes. Text stays text, and there are no external fonts or scripts.
"""

import io
import math
from collections.abc import Iterator
from contextlib import contextmanager

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from atdp.replay.evaluation import Evaluation, Histogram, Likelihood
from atdp.replay.intervals import Interval
from atdp.replay.report import ReplayReport
from atdp.replay.value_estimates import Estimate

INK = "#1f2933"
QUIET = "#9aa5b1"
BASELINE = "#7b8794"
CANDIDATE = "#2563eb"
BAD = "#c0392b"
GOOD = "#1e8e5a"
STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "atdp.replay",
    "font.family": "sans-serif",
    "font.size": 10.0,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": "#cbd2d9",
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 11.0,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
}

REFUSING_REASONS = frozenset(
    {"low_effective_sample_size", "one_weight_dominates", "weights_off_one", "few_tasks"}
)
"""Reasons for which approximate intervals are not shown as evidence."""


@contextmanager
def _figure(width_in: float, height_in: float) -> Iterator[Figure]:
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(width_in, height_in), layout="constrained")
        FigureCanvasSVG(figure)
        yield figure


def _svg(figure: Figure, title: str) -> str:
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None}, transparent=True)
    svg = buffer.getvalue()
    return svg[svg.index("<svg") :].replace("<svg", f'<svg role="img" aria-label="{title}"', 1)


def refuses_intervals(report: ReplayReport) -> bool:
    """Return True when the report's approximate intervals do not count as evidence."""
    return bool(REFUSING_REASONS & {reason.code for reason in report.reasons})


def forest(report: ReplayReport) -> str:
    """Plot the values of both policies and their difference by estimator.

    Approximate estimates that do not count as evidence are grey.
    """
    evaluation, config = report.evaluation, report.inputs.config
    estimates = list(evaluation.estimates)
    refused = refuses_intervals(report)
    with _figure(9.6, 0.9 + 0.52 * len(estimates)) as figure:
        values, difference = figure.subplots(1, 2, sharey=True, width_ratios=(1.15, 1.0))
        for row, estimate in enumerate(reversed(estimates)):
            grey = refused and not estimate.guaranteed
            _whisker(values, row - 0.14, estimate.baseline, QUIET if grey else BASELINE, "s")
            _whisker(values, row + 0.14, estimate.candidate, QUIET if grey else CANDIDATE, "o")
            _whisker(
                difference,
                row,
                estimate.difference,
                _colour(estimate, config.threshold, grey=grey),
                "D",
            )
        names = [f"{e.title}{' *' if _decides(e, report) else ''}" for e in reversed(estimates)]
        values.set_yticks(range(len(estimates)), names)
        values.set_ylim(-0.6, len(estimates) - 0.4)
        low, high = config.reward_min, config.reward_max
        pad = 0.05 * (high - low)
        values.set_xlim(low - pad, high + pad)
        values.set_title("Predicted reward")
        values.plot([], [], "s", color=BASELINE, label=f"baseline {report.inputs.baseline.version}")
        values.plot(
            [], [], "o", color=CANDIDATE, label=f"candidate {report.inputs.candidate.version}"
        )
        figure.legend(
            *values.get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False
        )
        difference.axvline(config.threshold, color=BAD, linewidth=1.0, linestyle=(0, (4, 3)))
        difference.axvline(0.0, color="#cbd2d9", linewidth=0.8, zorder=0)
        reach = 1.1 * max(
            [0.05, *(_farthest_bound(e.difference) for e in estimates if not e.guaranteed)]
        )
        difference.set_xlim(-reach, reach)
        difference.set_title("Difference (dashed: threshold)")
        for axes in (values, difference):
            axes.tick_params(axis="y", length=0)
            axes.grid(axis="x", color="#eef1f4")
            axes.set_axisbelow(True)
        return _svg(figure, "Predicted reward of candidate and baseline by estimator")


def _decides(estimate: Estimate, report: ReplayReport) -> bool:
    return estimate.name == report.inputs.config.decisive_estimate


def _colour(estimate: Estimate, threshold: float, *, grey: bool) -> str:
    if grey:
        return QUIET
    if estimate.difference.lower > threshold:
        return GOOD
    return BAD if estimate.difference.upper < threshold else INK


def _farthest_bound(interval: Interval) -> float:
    return max((abs(v) for v in (interval.lower, interval.upper) if math.isfinite(v)), default=0.0)


def _whisker(axes: Axes, y: float, interval: Interval, colour: str, marker: str) -> None:
    if math.isfinite(interval.lower) and math.isfinite(interval.upper):
        axes.plot(
            [interval.lower, interval.upper],
            [y, y],
            color=colour,
            linewidth=1.8,
            solid_capstyle="round",
        )
    axes.plot([interval.estimate], [y], marker, color=colour, markersize=5.5)


def weights(evaluation: Evaluation, *, min_ess: float) -> str:
    """Plot the candidate's weights and the effective sample size by decision."""
    histogram, diagnostics = evaluation.candidate_histogram, evaluation.candidate_weights
    if histogram is None or diagnostics is None:
        return ""
    with _figure(9.6, 2.9) as figure:
        left, right = figure.subplots(1, 2)
        _bars(left, histogram)
        decisions = range(1, len(diagnostics.ess_by_decision) + 1)
        right.plot(decisions, diagnostics.ess_by_decision, "o-", color=CANDIDATE, markersize=4)
        right.axhline(min_ess, color=BAD, linewidth=1.0, linestyle=(0, (4, 3)))
        right.set_ylim(0, 1.08 * max(diagnostics.trajectories, min_ess))
        right.xaxis.set_major_locator(MaxNLocator(integer=True))
        right.set_title(f"Effective sample size, of {diagnostics.trajectories} (dashed: floor)")
        right.set_xlabel("decisions (model calls) so far")
        return _svg(
            figure, "Importance weights of the candidate and effective sample size by decision"
        )


def _bars(axes: Axes, histogram: Histogram) -> None:
    width = histogram.edges[1] - histogram.edges[0]
    centres = [e + width / 2 for e in histogram.edges[:-1]]
    axes.bar(centres, histogram.counts, width=0.9 * width, color=CANDIDATE, alpha=0.8)
    axes.axvline(0.0, color=INK, linewidth=0.8)
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_title("Weights of the trajectories")
    axes.set_xlabel("log10 weight (0: as likely as when logged)")


def likelihood(measured: Likelihood, *, margin: float) -> str:
    """Plot the paired difference of held-out log-likelihood per token against its guardrail."""
    with _figure(9.6, 1.25) as figure:
        axes = figure.subplots()
        harmful = measured.difference.upper < -margin
        _whisker(axes, 0.0, measured.difference, BAD if harmful else CANDIDATE, "D")
        reach = 1.15 * max(margin, _farthest_bound(measured.difference))
        axes.axvspan(-reach, -margin, color=BAD, alpha=0.07)
        axes.axvline(0.0, color="#cbd2d9", linewidth=0.8)
        axes.set_xlim(-reach, reach)
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
        axes.set_title("Candidate minus baseline, nats per token (shaded: certain harm)")
        return _svg(figure, "Held-out log-likelihood of candidate minus baseline")
