"""The report's plots, as SVG text: drawn by matplotlib, readable in light and dark pages, text kept as text."""

import io
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl

mpl.use("svg")

from matplotlib.figure import Figure

from order_desk.rate import Rate
from order_desk.rounds import Candidate

INK, GRID = "#5b6472", "#d9dde3"
BLUE, GREEN, RED, AMBER, GREY = "#2f6fde", "#1f9d63", "#d0433c", "#c98a1b", "#9aa3af"

_STYLE: dict[str, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "atdp",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 10,
    "axes.edgecolor": GRID,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "xtick.color": INK,
    "ytick.color": INK,
    "text.color": INK,
    "legend.frameon": False,
}


def success(before: Rate, traffic: Mapping[str, Rate], candidates: Sequence[Candidate]) -> str:
    """Success of all sessions, phase by phase, and replay's predictions beside what was measured."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(9.2, 3.9), layout="constrained")
        axes = figure.add_subplot()
        phases = list(traffic)
        for place, phase in enumerate(phases):
            rate = traffic[phase]
            if rate.value is None:
                continue
            colour = BLUE if phase in {"before", "after"} else GREY
            _whisker(axes, place, rate.value, rate.bounds, colour, width=9)
            axes.annotate(
                f"{rate.value:.0%}",
                (place, rate.bounds[1]),
                (0, 4),
                textcoords="offset points",
                ha="center",
                fontsize=9,
            )
        for candidate in candidates:
            found = candidate.prediction
            if found is None or candidate.deliberately_bad:
                continue
            met = _met_in(candidate, phases)
            bounds = (found.lower, found.upper)
            _whisker(axes, met - 0.24, found.estimate, bounds, AMBER, width=4, marker="D")
            measured = None if candidate.canary is None else candidate.canary.candidate
            if measured is not None and measured.value is not None:
                _whisker(
                    axes, met + 0.24, measured.value, measured.bounds, GREEN, width=4, marker="o"
                )
                axes.annotate(
                    candidate.version,
                    (met, 0.02),
                    (0, 0),
                    textcoords="offset points",
                    ha="center",
                    fontsize=9,
                )
        if before.value is not None:
            axes.axhline(2 * before.value, color=BLUE, linewidth=0.8, linestyle=":")
            axes.text(
                len(phases) - 0.55,
                2 * before.value,
                "twice before",
                va="bottom",
                ha="right",
                fontsize=8,
                color=BLUE,
            )
        axes.set_xticks(range(len(phases)), [_title(phase) for phase in phases])
        axes.set_ylim(0, 1.02)
        axes.set_xlim(-0.5, len(phases) - 0.5)
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        axes.set_ylabel("sessions answered right")
        for label, colour, marker in (
            ("fresh tasks, measured", BLUE, "s"), ("all sessions of a round", GREY, "s"),
            ("candidate, predicted by replay", AMBER, "D"), ("candidate, measured in its canary", GREEN, "o"),
        ):  # fmt: skip
            axes.plot([], [], color=colour, marker=marker, linestyle="", label=label)
        figure.legend(loc="outside upper center", ncols=4, fontsize=9)
        return _svg(figure, "Success over the rounds, with replay's predictions")


def training_reward(candidates: Sequence[Candidate]) -> str:
    """Mean reward of the groups trained on, step by step."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(4.5, 2.9), layout="constrained")
        axes = figure.add_subplot()
        start = 0
        for candidate in candidates:
            steps = range(start + 1, start + 1 + len(candidate.training_reward))
            colour = RED if candidate.deliberately_bad else BLUE
            axes.plot(steps, candidate.training_reward, color=colour, marker=".", linewidth=1.4)
            if steps:
                axes.annotate(
                    candidate.version,
                    (steps[0], 0.03),
                    (0, 0),
                    textcoords="offset points",
                    fontsize=9,
                    color=colour,
                )
            start += len(candidate.training_reward)
        axes.set_ylim(0, 1)
        axes.set_xlabel("optimizer step, over all candidates (red: bad on purpose)", fontsize=9)
        axes.set_ylabel("mean reward of its groups")
        return _svg(figure, "Reward of the groups trained on")


def findings(found: Mapping[str, int]) -> str:
    """What governance replaced, by entity."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(4.5, 2.9), layout="constrained")
        axes = figure.add_subplot()
        entities = list(found)[::-1]
        bars = axes.barh(
            [entity.lower().replace("_", " ") for entity in entities],
            [found[e] for e in entities],
            color=AMBER,
        )
        axes.bar_label(bars, padding=3, fontsize=9)
        axes.grid(axis="y", visible=False)
        axes.margins(x=0.15)
        axes.set_xlabel("occurrences replaced")
        return _svg(figure, "Findings of governance by entity")


def load(rows: Sequence[Mapping[str, Any]]) -> str:
    """Sessions ended per second, and model latency per session, over the agents' time."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(9.2, 2.5), layout="constrained")
        left, right = figure.subplots(1, 2)
        seconds = [row["second"] for row in rows]
        left.bar(seconds, [row["sessions_per_s"] for row in rows], width=9, color=BLUE)
        left.set_ylabel("sessions ended per second")
        right.plot(
            seconds,
            [math.nan if row["latency_ms"] is None else row["latency_ms"] for row in rows],
            color=GREEN,
            marker=".",
            linewidth=0,
            markersize=5,
        )
        right.set_ylabel("model time per session, ms")
        right.set_ylim(bottom=0)
        for axes in (left, right):
            axes.set_xlabel("seconds since the first customer")
        return _svg(figure, "Throughput and latency")


def _whisker(
    axes: Any,
    x: float,
    value: float,
    bounds: tuple[float, float],
    colour: str,
    *,
    width: float,
    marker: str = "s",
) -> None:
    axes.vlines(x, *bounds, color=colour, linewidth=width, alpha=0.28)
    axes.plot([x], [value], color=colour, marker=marker, markersize=6)


def _met_in(candidate: Candidate, phases: Sequence[str]) -> float:
    """Where customers met the candidate: its canary's traffic, or just after the round that trained it."""
    canary = f"canary{candidate.round}"
    return (
        list(phases).index(canary)
        if canary in phases
        else list(phases).index(f"r{candidate.round}") + 0.5
    )


def _title(phase: str) -> str:
    found = re.fullmatch(r"(r|canary)(\d+)", phase)
    if found is None:
        return phase
    return f"round {found[2]}" if found[1] == "r" else f"canary {found[2]}"


def _svg(figure: Figure, title: str) -> str:
    text = io.StringIO()
    figure.savefig(text, format="svg", transparent=True, metadata={"Title": title, "Date": None})
    found = text.getvalue()
    return found[found.index("<svg") :]
