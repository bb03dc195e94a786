"""`report.html` of the online demo: one self-contained page, without scripts and requests."""

from pathlib import Path

from atdp.runtime import write_durably
from order_desk import online_plots
from order_desk.learning_process import in_words
from order_desk.online_summary import OnlineSummary
from order_desk.report import page_template

_SHOWN = ("candidate", "gate", "canary", "bad release", "promoted", "rolled back")


def write_online_page(summary: OnlineSummary, file: Path) -> None:
    """Write the page to `file`."""
    drawings = {
        "success": online_plots.success_over_time(
            summary.sessions, summary.events, summary.settings.target
        ),
        "learning": online_plots.learning_curve(summary.evidence.steps),
        "ratings": online_plots.ratings_and_truth(summary.sessions),
        "load": online_plots.load_over_time(summary.sessions),
    }
    text = page_template("online_report.html.jinja").render(
        s=summary,
        r=summary.ratings,
        e=summary.evidence,
        events=[each for each in summary.events if each.kind in _SHOWN],
        in_words=in_words,
        plots=drawings,
    )
    write_durably(file, text)
