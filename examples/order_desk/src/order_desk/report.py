"""`report.html`: the summary as one self-contained page, without scripts, fonts and requests."""

from collections.abc import Mapping
from pathlib import Path

import jinja2

from atdp.runtime import write_durably
from atdp.schemas import escape_shown_value
from order_desk import plots
from order_desk.settings import MODEL, WITHDRAWN
from order_desk.summary import Summary


def write_page(summary: Summary, file: Path) -> None:
    """Write the page to `file`."""
    write_durably(file, render(summary))


def page_template(name: str) -> jinja2.Template:
    """Return a template of the package, whose values are escaped."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("order_desk"),
        autoescape=True,
        finalize=escape_shown_value,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["percent"] = _percent
    environment.filters["number"] = _number
    return environment.get_template(name)


def render(summary: Summary) -> str:
    """Return the page's text; plots are inline SVG."""
    evidence = summary.evidence
    drawings: Mapping[str, str] = {
        "success": plots.success(summary.before, summary.traffic, summary.candidates),
        "reward": plots.training_reward(summary.candidates),
        "findings": plots.findings(evidence.findings),
        "load": plots.load(evidence.throughput),
    }
    return page_template("report.html.jinja").render(
        s=summary, e=evidence, plots=drawings, model=MODEL, withdrawn=WITHDRAWN
    )


def _percent(value: float | None) -> str:
    return "none" if value is None else f"{value:.1%}"


def _number(value: float | None, form: str) -> str:
    return "" if value is None else form % value
