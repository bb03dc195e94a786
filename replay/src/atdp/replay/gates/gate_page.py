"""The report of gates as one self-contained HTML page, without scripts and requests.

The page shows the verdict with its reasons, then tenants against metrics, the flips and the curves,
then the inputs. The same report gives the same bytes.
"""

from urllib.parse import quote

from atdp.replay.gates.gate_plots import pass_k_plot
from atdp.replay.gates.gate_report import GateReport
from atdp.replay.page_template import page_template
from atdp.replay.verdict import Verdict

MOST_FLIPS = 200
"""Flips of one metric of a tenant that the page shows; the JSON has all of them."""

_MEANING = {
    Verdict.PASS: "Every tenant's critical metrics are shown to be good enough.",
    Verdict.FAIL: "Harm is shown for a critical metric of a tenant.",
    Verdict.INCONCLUSIVE: "A critical metric of a tenant is not shown to be good enough, "
    "nor to be worse.",
    Verdict.ERROR: "The gates could not be judged.",
}


def render_gates(report: GateReport) -> str:
    """Return the page."""
    settings = report.inputs.settings if isinstance(report.inputs.settings, dict) else {}
    address = settings.get("trajectory_url")

    def link(tenant: str, trajectory: str, attempt: int) -> str | None:
        if not isinstance(address, str):
            return None
        return address.format(
            tenant=quote(tenant, safe=""), trajectory=quote(trajectory, safe=""), attempt=attempt
        )

    return page_template("gates.html.j2", number=_number).render(
        report=report,
        inputs=report.inputs,
        settings=sorted(settings.items()),
        metrics=[metric.evidence for metric in report.tenants[0].metrics] if report.tenants else [],
        meaning=_MEANING[report.verdict],
        most_flips=MOST_FLIPS,
        link=link,
        pass_k_plot=pass_k_plot,
    )


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"
