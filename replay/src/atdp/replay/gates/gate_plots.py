"""The pass^k curve of a report as inline SVG; the same report gives the same bytes."""

from markupsafe import Markup
from matplotlib.ticker import MaxNLocator

from atdp.replay.gates.evidence import MetricEvidence
from atdp.replay.plot_frame import BASELINE, CANDIDATE, drawn_figure, to_svg


def pass_k_plot(evidence: MetricEvidence) -> Markup:
    """Plot pass^1 to pass^k of both with their bands."""
    with drawn_figure(4.8, 2.6) as figure:
        axes = figure.subplots()
        for name, colour, curve in (
            ("baseline", BASELINE, evidence.baseline_curve),
            ("candidate", CANDIDATE, evidence.candidate_curve),
        ):
            steps = [point.k for point in curve]
            lower, upper = [point.lower for point in curve], [point.upper for point in curve]
            axes.fill_between(steps, lower, upper, color=colour, alpha=0.15, linewidth=0)
            axes.plot(steps, [p.value for p in curve], "o-", color=colour, markersize=4, label=name)
        axes.set_ylim(0, 1.02)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlabel("k")
        axes.set_ylabel("probability")
        axes.set_title("All of k attempts at a task succeed")
        axes.legend(frameon=False)
        return to_svg(figure, "pass^k by k")
