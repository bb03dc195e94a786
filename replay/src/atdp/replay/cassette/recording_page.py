"""The report of replayed recordings as one self-contained HTML page with inline SVG.

The same report gives the same bytes.
"""

from collections.abc import Sequence
from pathlib import Path

from markupsafe import Markup

from atdp.replay.cassette.player import OUTCOMES
from atdp.replay.cassette.recording_report import RecordingReport
from atdp.replay.page_template import page_template
from atdp.replay.report_files import write_report_files
from atdp.replay.report_json import rounded_json
from atdp.replay.verdict import Verdict

_MEANING = {
    Verdict.PASS: "The candidate acts as the recorded agent does.",
    Verdict.FAIL: "The candidate left its recordings.",
    Verdict.INCONCLUSIVE: "The recordings do not decide. Evaluate the candidate where it acts.",
    Verdict.ERROR: "The replay failed. It says nothing about the candidate.",
}
_REFUSALS = {
    "no_end": "it has not ended",
    "governance_changed": "governance replaced something that the model saw or wrote",
    "events_missing": "events are missing",
    "messages_missing": "messages are missing",
    "context_truncated": "earlier messages were not shown any more",
    "tool_result_missing": "a result of a tool is missing",
    "no_model_call": "no turn of a model",
    "result_missing": "a result of a tool is missing",
    "result_without_call": "a result belongs to no call before it",
    "context_rewritten": "its messages are not those that the model saw at each call",
    "content_not_text": "messages hold more than text and tool calls",
}
_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 640, 220, 46, 30
"""Pixels of a plot, and of its margins for the numbers."""

Curve = Sequence[tuple[int, float]]
"""(step, share) points."""


def render_recordings(report: RecordingReport) -> str:
    """Return the page."""
    measures = report.measures
    settings = rounded_json(report.inputs.settings)
    return page_template("recordings.html.j2", share=_share, number=_number).render(
        report=report,
        inputs=report.inputs,
        measures=measures,
        comparison=measures.comparison,
        rewards=measures.rewards,
        settings=sorted(settings.items()) if isinstance(settings, dict) else [],
        meaning=_MEANING[report.verdict],
        refusals=_REFUSALS,
        outcomes=OUTCOMES,
        coverage_plot=_plot(
            [(each.step, each.surviving) for each in measures.coverage],
            [(each.step, each.surviving) for each in measures.self_coverage],
        ),
        agreement_plot=_plot(
            [(each.step, each.agreed / each.compared) for each in measures.agreement],
            [(each.step, each.agreed / each.compared) for each in measures.self_agreement],
        ),
    )


def write_recording_report(report: RecordingReport, page: Path) -> tuple[Path, Path]:
    """Write the page and, beside it, the canonical JSON; returns both paths."""
    return write_report_files(page, html=render_recordings(report), canonical=report.canonical())


def _plot(candidate: Curve, baseline: Curve) -> Markup | None:
    """Return the candidate's curve and the baseline's as SVG; None when there is nothing to show.

    Only numbers go into the SVG.
    """
    last = max((step for step, _ in (*candidate, *baseline)), default=0)
    if not last:
        return None
    across, down = _WIDTH - _LEFT - 10, _HEIGHT - _BOTTOM - 10

    def point(step: int, share: float) -> str:
        x = _LEFT + across * (step - 1) / max(1, last - 1)
        return f"{x:.1f},{10 + down * (1 - share):.1f}"

    lines = [
        f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - 10}" y1="{y:.1f}" y2="{y:.1f}"/>'
        f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{share:.0%}</text>'
        for share in (0.0, 0.5, 1.0)
        for y in (10 + down * (1 - share),)
    ]
    lines += [
        f'<text x="{point(step, 0).split(",")[0]}" y="{_HEIGHT - 10}" '
        f'text-anchor="middle">{step}</text>'
        for step in sorted({1, (last + 1) // 2, last})
    ]
    for name, curve in (("baseline", baseline), ("candidate", candidate)):
        if curve:
            points = " ".join(point(step, share) for step, share in curve)
            lines.append(f'<polyline class="{name}" points="{points}"/>')
            lines += [
                f'<circle class="{name}" r="3" cx="{x}" cy="{y}"/>'
                for x, y in (point(step, share).split(",") for step, share in curve)
            ]
    body = "".join(lines)
    return Markup(f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">{body}</svg>')  # noqa: S704


def _share(value: float | None) -> str:
    return "n/a" if value is None else f"{100 * value:.1f} %"


def _number(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.3f}"
