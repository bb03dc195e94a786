"""The frame of a report's plots: figures in one style, as inline SVG with the same bytes each time.

Text stays text, and there are no external fonts or scripts.
"""

import io
import math
from collections.abc import Iterator
from contextlib import contextmanager

import matplotlib as mpl
from markupsafe import Markup, escape
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.text import Text

from atdp.replay.intervals import Interval
from atdp.schemas import escape_control_characters

INK = "#1f2933"
QUIET = "#9aa5b1"
BASELINE = "#7b8794"
CANDIDATE = "#2563eb"
BAD = "#c0392b"
GOOD = "#1e8e5a"
STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "atdp.replay",
    "text.parse_math": False,
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


@contextmanager
def drawn_figure(width_in: float, height_in: float) -> Iterator[Figure]:
    """Give a new figure; the style holds inside of the block."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(width_in, height_in), layout="constrained")
        FigureCanvasSVG(figure)
        yield figure


def to_svg(figure: Figure, title: str) -> Markup:
    """Return the figure as an SVG element; `title` says what it shows, for those who hear it.

    Matplotlib escapes the text of labels for XML; what acts on a page is escaped here.
    """
    for label in figure.findobj(Text):
        label.set_text(escape_control_characters(label.get_text()))
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None}, transparent=True)
    # Once more for the labels of ticks, which are made while the figure is drawn.
    svg = escape_control_characters(buffer.getvalue())
    svg = svg[svg.index("<svg") :]
    return Markup(svg.replace("<svg", f'<svg role="img" aria-label="{escape(title)}"', 1))  # noqa: S704


def farthest_bound(interval: Interval) -> float:
    """Return the largest distance of a finite bound from 0; 0 without one."""
    return max((abs(v) for v in (interval.lower, interval.upper) if math.isfinite(v)), default=0.0)


def draw_whisker(axes: Axes, y: float, interval: Interval, colour: str, marker: str) -> None:
    """Draw an estimate with its bounds, where they are finite."""
    if math.isfinite(interval.lower) and math.isfinite(interval.upper):
        axes.plot(
            [interval.lower, interval.upper],
            [y, y],
            color=colour,
            linewidth=1.8,
            solid_capstyle="round",
        )
    axes.plot([interval.estimate], [y], marker, color=colour, markersize=5.5)
