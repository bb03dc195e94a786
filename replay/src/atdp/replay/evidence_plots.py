"""Plots of a report about the evidence: weights, coverage, and what is without a weight."""

from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from atdp.replay.bounded_estimates import UnscoredComparison
from atdp.replay.clip_sweep import ClippedEstimate
from atdp.replay.config import ReplayConfig
from atdp.replay.coverage import Coverage
from atdp.replay.evaluation import Evaluation, Histogram
from atdp.replay.plot_frame import (
    BAD,
    BASELINE,
    CANDIDATE,
    INK,
    QUIET,
    draw_whisker,
    drawn_figure,
    to_svg,
)


def weights(evaluation: Evaluation, *, min_ess: float) -> Markup:
    """Plot the candidate's weights and the effective sample size by decision."""
    histogram, diagnostics = evaluation.candidate_histogram, evaluation.candidate_weights
    if histogram is None or diagnostics is None:
        return Markup()
    with drawn_figure(9.6, 2.9) as figure:
        left, right = figure.subplots(1, 2)
        _bars(left, histogram)
        decisions = range(1, len(diagnostics.ess_by_decision) + 1)
        right.plot(decisions, diagnostics.ess_by_decision, "o-", color=CANDIDATE, markersize=4)
        right.axhline(min_ess, color=BAD, linewidth=1.0, linestyle=(0, (4, 3)))
        right.set_ylim(0, 1.08 * max(diagnostics.trajectories, min_ess))
        right.set_xlim(0.5, len(decisions) + 0.5)
        right.xaxis.set_major_locator(MaxNLocator(integer=True))
        right.set_title(f"Effective sample size, of {diagnostics.trajectories} (dashed: floor)")
        right.set_xlabel("decisions (model calls) so far")
        return to_svg(
            figure, "Importance weights of the candidate and effective sample size by decision"
        )


def _bars(axes: Axes, histogram: Histogram) -> None:
    width = histogram.edges[1] - histogram.edges[0]
    centres = [e + width / 2 for e in histogram.edges[:-1]]
    axes.bar(centres, histogram.counts, width=0.9 * width, color=CANDIDATE, alpha=0.8)
    axes.axvline(0.0, color=INK, linewidth=0.8)
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_title("Weights of the trajectories")
    axes.set_ylabel("trajectories")
    axes.set_xlabel("log10 weight (0: as likely as when logged)")


def clip_sweep(sweep: tuple[ClippedEstimate, ...], *, min_ess: float) -> Markup:
    """Plot the values of both policies, and the effective sample size, by the limit of weights."""
    clips = [each.clip for each in sweep]
    with drawn_figure(9.6, 2.6) as figure:
        left, right = figure.subplots(1, 2)
        left.plot(clips, [e.baseline for e in sweep], "s-", color=BASELINE, label="baseline")
        left.plot(clips, [e.candidate for e in sweep], "o-", color=CANDIDATE, label="candidate")
        left.set_title("Weighted IS, weights cut at a limit")
        left.legend(frameon=False)
        right.plot(clips, [e.ess for e in sweep], "o-", color=CANDIDATE)
        right.axhline(min_ess, color=BAD, linewidth=1.0, linestyle=(0, (4, 3)))
        right.set_title("Effective sample size (dashed: floor)")
        for axes in (left, right):
            axes.set_xscale("log")
            axes.set_xlabel("largest weight that is kept")
        right.set_ylim(0, 1.08 * max(min_ess, *(each.ess for each in sweep)))
        return to_svg(figure, "Values and effective sample size by the limit of weights")


def unscored(compared: UnscoredComparison, config: ReplayConfig) -> Markup:
    """Plot the mean rewards of the trajectories with and without a valid weight."""
    with drawn_figure(9.6, 1.5) as figure:
        axes = figure.subplots()
        draw_whisker(axes, 1.0, compared.scored_reward, CANDIDATE, "o")
        draw_whisker(axes, 0.0, compared.unscored_reward, BAD, "D")
        axes.set_yticks([0.0, 1.0], ["without a valid weight", "with valid weights"])
        axes.set_ylim(-0.6, 1.6)
        pad = 0.05 * (config.reward_max - config.reward_min)
        axes.set_xlim(config.reward_min - pad, config.reward_max + pad)
        axes.grid(axis="x", color="#eef1f4")
        axes.set_title("Mean reward as logged")
        return to_svg(figure, "Mean reward of trajectories with and without a valid weight")


def coverage(covered: Coverage) -> Markup:
    """Plot the parts of the dataset: scored, unscored, unrewarded, and learned from."""
    parts = (
        ("scored", covered.usable, CANDIDATE),
        ("no valid weight", covered.unscored, BAD),
        ("no reward", covered.unrewarded, BASELINE),
        ("learned from", covered.learned_from, QUIET),
    )
    with drawn_figure(9.6, 1.1) as figure:
        axes = figure.subplots()
        start = 0
        for name, count, colour in parts:
            axes.barh([0], [count], left=[start], color=colour, label=f"{name}: {count}")
            start += count
        axes.set_xlim(0, max(start, 1))
        axes.set_yticks([])
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.spines["left"].set_visible(False)
        figure.legend(loc="outside upper center", ncols=4, frameon=False)
        return to_svg(figure, "Trajectories of the dataset by their use")
