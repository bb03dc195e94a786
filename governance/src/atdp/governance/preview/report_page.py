"""The report as one self-contained HTML page, without scripts and requests."""

from jinja2 import Environment, PackageLoader, StrictUndefined

from atdp.governance.preview.report import CostRow, PreviewReport
from atdp.governance.preview.shares import Share
from atdp.schemas import escape_shown_value

SOURCE_TITLES = {
    "raw": "Raw records",
    "quarantine": "Records in quarantine",
    "lake": "Events in the lake",
}
SOURCE_NOTES = {
    "raw": "As agents sent them, from the raw topic.",
    "quarantine": "Set aside in the window, opened and governed again; those that were released or "
    "discarded since are among them.",
    "lake": "Governed before, under the policy of their time. The comparison shows what each side "
    "would change beyond that; values that are replaced already are in neither count.",
}
DIRECTIONS = {
    "more": "Replaced by the draft only",
    "fewer": "No longer replaced",
    "other": "Replaced differently",
}


def percent(value: float | None) -> str:
    """Return a share in percent; shares that are not 0 do not read 0.0 %."""
    if value is None:
        return "n/a"
    if 0 < value < 0.0005:
        return "< 0.1 %"
    return f"{100 * value:.1f} %"


def bounds(share: Share) -> str:
    """Return the 95 % interval of a share, or what it was counted from."""
    if share.lower is None or share.upper is None:
        return f"{share.count} of {share.of}"
    interval = f"{percent(share.lower)} to {percent(share.upper)}"
    return f"{share.count} of {share.of}; 95 %: {interval}"


def share_text(share: Share) -> str:
    """Return a share with its bounds."""
    return f"{percent(share.value)} ({bounds(share)})"


def cost_ratio(cost: CostRow) -> str:
    """Return the cost of the draft as a multiple of that of the active policy."""
    if not cost.active_us or cost.draft_us is None:
        return "n/a"
    return f"× {cost.draft_us / cost.active_us:.2f}"


def render_preview_page(report: PreviewReport) -> str:
    """Return the page. All text from data is escaped."""
    environment = Environment(
        loader=PackageLoader("atdp.governance", "preview/templates"),
        autoescape=True,
        finalize=escape_shown_value,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(percent=percent, bounds=bounds, ratio=cost_ratio)
    return environment.get_template("preview.html.j2").render(
        report=report, titles=SOURCE_TITLES, notes=SOURCE_NOTES, directions=DIRECTIONS
    )
