"""The plots of the online demo, as SVG text that is readable on light and dark pages."""

from collections.abc import Sequence
from typing import Any

from order_desk.learning_process import NotedEvent
from order_desk.online_evidence import TrainingStep
from order_desk.plots import AMBER, BLUE, GREEN, GREY, RED, drawing
from order_desk.user_traffic import UserSession

_WINDOW = 200
"""Sessions whose success makes one point of the curve."""
_BIN_S = 10.0
_EVENTS = {"promoted": GREEN, "bad release": RED, "rolled back": AMBER}


def success_over_time(
    sessions: Sequence[UserSession], events: Sequence[NotedEvent], target: float
) -> str:
    """Plot the true success of the last users over time, with the releases."""
    with drawing("Success over time", (9.2, 4.0)) as plot:
        axes = plot.figure.add_subplot()
        axes.axhline(target, color=BLUE, linewidth=0.8, linestyle=":")
        versions = sorted({each.version for each in sessions if each.version}, key=_number)
        for version in versions:
            _draw_version(axes, version, sessions)
        times, rates = _moving(sessions)
        axes.plot(times, rates, color=BLUE, linewidth=2.2, label=f"last {_WINDOW} users")
        for event in events:
            if event.kind in _EVENTS:
                _draw_event(axes, event)
        axes.set_ylim(0, 1.02)
        axes.set_xlim(left=0)
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        axes.set_ylabel("right answers")
        axes.set_xlabel("seconds since the first user")
        for kind, colour in _EVENTS.items():
            axes.plot([], [], color=colour, linewidth=1.2, linestyle="--", label=kind)
        axes.plot([], [], color=GREY, marker="o", markersize=4, linestyle="", label="one version")
        plot.figure.legend(loc="outside upper center", ncols=5, fontsize=9)
    return plot.svg


def learning_curve(steps: Sequence[TrainingStep]) -> str:
    """Plot the mean reward of the sessions of every update."""
    with drawing("Learning curve", (4.5, 2.9)) as plot:
        axes = plot.figure.add_subplot()
        for place, run in enumerate(sorted({each.run for each in steps})):
            points = [
                (number, each.reward)
                for number, each in enumerate(steps, 1)
                if each.run == run and each.reward is not None
            ]
            colour = (BLUE, GREEN, AMBER)[place % 3]
            axes.plot(
                [number for number, _ in points],
                [reward for _, reward in points],
                color=colour,
                marker=".",
                linewidth=1.2,
            )
        axes.set_ylim(0, 1)
        axes.set_xlabel("update (a colour for each run)", fontsize=9)
        axes.set_ylabel("mean rating learned from")
    return plot.svg


def ratings_and_truth(sessions: Sequence[UserSession]) -> str:
    """Plot the success that ratings show beside the true one, over time."""
    with drawing("Ratings and the truth", (4.5, 2.9)) as plot:
        axes = plot.figure.add_subplot()
        thirty = 3 * _BIN_S
        for label, colour, pairs in (
            ("rated: truth", BLUE, _rated(sessions, truth=True)),
            ("rated: as rated", AMBER, _rated(sessions, truth=False)),
            ("not rated: truth", GREY, _unrated(sessions)),
        ):
            times, rates = _binned(pairs, thirty)
            axes.plot(times, rates, color=colour, marker=".", linewidth=1.2, label=label)
        axes.set_ylim(0, 1.02)
        axes.set_xlabel("seconds since the first user", fontsize=9)
        axes.set_ylabel("share of right answers")
        axes.legend(fontsize=8, loc="lower right")
    return plot.svg


def load_over_time(sessions: Sequence[UserSession]) -> str:
    """Plot the users who got an answer per second."""
    with drawing("Load over time", (9.2, 2.2)) as plot:
        axes = plot.figure.add_subplot()
        counts: dict[int, int] = {}
        for session in sessions:
            place = int(session.ended_s // _BIN_S)
            counts[place] = counts.get(place, 0) + 1
        axes.bar(
            [(place + 0.5) * _BIN_S for place in counts],
            [count / _BIN_S for count in counts.values()],
            width=0.9 * _BIN_S,
            color=BLUE,
        )
        axes.set_xlim(left=0)
        axes.set_ylabel("users served per second")
        axes.set_xlabel("seconds since the first user")
    return plot.svg


def _draw_version(axes: Any, version: str, sessions: Sequence[UserSession]) -> None:
    times, rates = _binned(
        [(each.ended_s, each.right) for each in sessions if each.version == version], 2 * _BIN_S
    )
    axes.plot(times, rates, color=GREY, marker="o", markersize=3.5, linewidth=0.7, alpha=0.75)
    if times:
        axes.annotate(
            version, (times[-1], rates[-1]), (4, 3), textcoords="offset points", fontsize=8
        )


def _draw_event(axes: Any, event: NotedEvent) -> None:
    colour = _EVENTS[event.kind]
    axes.axvline(event.at_s, color=colour, linewidth=1.2, linestyle="--")
    axes.annotate(
        event.version or "",
        (event.at_s, 0.02),
        (2, 0),
        textcoords="offset points",
        fontsize=8,
        color=colour,
    )


def _moving(sessions: Sequence[UserSession]) -> tuple[list[float], list[float]]:
    times, rates = [], []
    for end in range(_WINDOW, len(sessions) + 1, 20):
        window = sessions[end - _WINDOW : end]
        times.append(window[-1].ended_s)
        rates.append(sum(each.right for each in window) / _WINDOW)
    return times, rates


def _rated(sessions: Sequence[UserSession], *, truth: bool) -> list[tuple[float, bool]]:
    return [
        (each.ended_s, each.right if truth else each.rated_up)
        for each in sessions
        if each.rated_up is not None and not each.of_saboteur
    ]


def _unrated(sessions: Sequence[UserSession]) -> list[tuple[float, bool]]:
    return [(each.ended_s, each.right) for each in sessions if each.rated_up is None]


def _binned(pairs: Sequence[tuple[float, bool]], width_s: float) -> tuple[list[float], list[float]]:
    bins: dict[int, list[bool]] = {}
    for at_s, right in pairs:
        bins.setdefault(int(at_s // width_s), []).append(right)
    kept = sorted((place, values) for place, values in bins.items() if len(values) >= 5)
    return (
        [(place + 0.5) * width_s for place, _ in kept],
        [sum(values) / len(values) for _, values in kept],
    )


def _number(version: str) -> int:
    return int(version.removeprefix("v"))
