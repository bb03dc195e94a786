"""Plots of a report that compare the policies: values by estimator, and held-out likelihood."""

from markupsafe import Markup

from atdp.replay.held_out_likelihood import Likelihood
from atdp.replay.plot_frame import (
    BAD,
    BASELINE,
    CANDIDATE,
    GOOD,
    INK,
    QUIET,
    draw_whisker,
    drawn_figure,
    farthest_bound,
    to_svg,
)
from atdp.replay.report import ReplayReport
from atdp.replay.value_estimates import Estimate

REFUSING_REASONS = frozenset(
    {"low_effective_sample_size", "one_weight_dominates", "weights_off_one", "few_tasks"}
)
"""Reasons for which approximate intervals are not shown as evidence."""


def refuses_intervals(report: ReplayReport) -> bool:
    """Return True when the report's approximate intervals do not count as evidence."""
    return bool(REFUSING_REASONS & {reason.code for reason in report.reasons})


def forest(report: ReplayReport) -> Markup:
    """Plot the values of both policies and their difference by estimator.

    Approximate estimates that do not count as evidence are grey.
    """
    evaluation, config = report.evaluation, report.inputs.config
    estimates = list(evaluation.estimates)
    refused = refuses_intervals(report)
    with drawn_figure(9.6, 0.9 + 0.52 * len(estimates)) as figure:
        values, difference = figure.subplots(1, 2, sharey=True, width_ratios=(1.15, 1.0))
        for row, estimate in enumerate(reversed(estimates)):
            grey = refused and not estimate.guaranteed
            draw_whisker(values, row - 0.14, estimate.baseline, QUIET if grey else BASELINE, "s")
            draw_whisker(values, row + 0.14, estimate.candidate, QUIET if grey else CANDIDATE, "o")
            draw_whisker(
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
        ess = evaluation.candidate_weights
        effective = f" (ESS {ess.least_ess:.1f} of {ess.trajectories})" if ess else ""
        values.set_title(f"Predicted reward{effective}")
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
            [0.05, *(farthest_bound(e.difference) for e in estimates if not e.guaranteed)]
        )
        difference.set_xlim(-reach, reach)
        difference.set_title("Difference (dashed: threshold)")
        for axes in (values, difference):
            axes.tick_params(axis="y", length=0)
            axes.grid(axis="x", color="#eef1f4")
            axes.set_axisbelow(True)
        return to_svg(figure, "Predicted reward of candidate and baseline by estimator")


def _decides(estimate: Estimate, report: ReplayReport) -> bool:
    return estimate.name == report.inputs.config.decisive_estimate


def _colour(estimate: Estimate, threshold: float, *, grey: bool) -> str:
    if grey:
        return QUIET
    if estimate.difference.lower > threshold:
        return GOOD
    return BAD if estimate.difference.upper < min(0.0, threshold) else INK


def likelihood(measured: Likelihood, *, margin: float) -> Markup:
    """Plot the paired difference of held-out log-likelihood per token against its guardrail."""
    with drawn_figure(9.6, 1.25) as figure:
        axes = figure.subplots()
        other_style = measured.difference.upper < -margin
        draw_whisker(axes, 0.0, measured.difference, BAD if other_style else CANDIDATE, "D")
        reach = 1.15 * max(margin, farthest_bound(measured.difference))
        axes.axvspan(-reach, -margin, color=BAD, alpha=0.07)
        axes.axvline(0.0, color="#cbd2d9", linewidth=0.8)
        axes.set_xlim(-reach, reach)
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
        axes.set_title("Candidate minus baseline, nats per token (shaded: another style)")
        return to_svg(figure, "Held-out log-likelihood of candidate minus baseline")
