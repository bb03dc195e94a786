"""The result of the online demo: a value for `summary.json`, the terminal and `report.html`."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields as dataclass_fields
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

from rich.console import Console
from rich.text import Text

from atdp.runtime import write_durably
from order_desk.learning_process import NotedEvent
from order_desk.online_evidence import OnlineEvidence
from order_desk.online_settings import OnlineDemoSettings
from order_desk.rate import Rate
from order_desk.rating_figures import RatingFigures, rating_figures
from order_desk.user_traffic import UserSession, sessions_of_one_trajectory

LONGEST_PAUSE_S = 10.0
"""Time without an answered user from which on serving counts as interrupted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OnlineOutcome:
    """The results of the steps that need the running stack."""

    logged_success: float
    """Share of the clerks' conversations that ended right."""
    first_version: str
    sessions: Sequence[UserSession]
    """In the order of their ends."""
    events: Sequence[NotedEvent]
    """Events of learning, and the bad release."""
    bad_version: str | None
    """None: it was not released."""
    evidence: OnlineEvidence


@dataclass(frozen=True, slots=True, kw_only=True)
class OnlineSummary(OnlineOutcome):
    """The outcome with the home, the settings, and the time and memory that it took."""

    home: Path
    settings: OnlineDemoSettings
    at_peak: Mapping[str, int]
    """Bytes by process when they were most in all."""
    wall_seconds: float
    step_seconds: Mapping[str, float]

    @classmethod
    def of(cls, outcome: OnlineOutcome, **fields: Any) -> Self:
        """Return the summary of an outcome; `fields` are the fields that it adds."""
        shared = {each.name: getattr(outcome, each.name) for each in dataclass_fields(outcome)}
        return cls(**shared, **fields)

    @property
    def peak_bytes(self) -> int:
        """The most memory of all processes together."""
        return sum(self.at_peak.values())

    @property
    def before(self) -> Rate:
        """The success of the first users."""
        return success_rate(self.sessions[: self.settings.measured])

    @property
    def after(self) -> Rate:
        """The success of the last users."""
        return success_rate(self.sessions[-self.settings.measured :])

    @property
    def by_version(self) -> dict[str, Rate]:
        """The success of every version that served."""
        by_version: dict[str, list[UserSession]] = {}
        for session in self.sessions:
            if session.version is not None:
                by_version.setdefault(session.version, []).append(session)
        return {version: success_rate(sessions) for version, sessions in by_version.items()}

    @property
    def failures(self) -> list[str]:
        """The sessions in which a call failed."""
        return [f"{each.number}: {each.failure}" for each in self.sessions if each.failure]

    @property
    def mixed(self) -> int:
        """Number of sessions that met several versions, or became several trajectories.

        Those that began at the version that was released by mistake are `moved`.
        """
        return sum(
            session.is_mixed and session.version != self.bad_version for session in self.sessions
        )

    @property
    def moved(self) -> int:
        """Number of sessions that ended at another version because theirs was taken back.

        A rolled-back version answers no further call, also within a session.
        """
        return sum(session.is_mixed for session in self.sessions) - self.mixed

    @property
    def serving_s(self) -> float:
        """The time from the first user's arrival to the last answer."""
        return max((session.ended_s for session in self.sessions), default=0.0)

    @property
    def longest_pause_s(self) -> float:
        """The longest time in which no user got an answer."""
        ends = [0.0, *(session.ended_s for session in self.sessions)]
        return max((later - earlier for earlier, later in pairwise(ends)), default=0.0)

    @property
    def ratings(self) -> RatingFigures:
        """The ratings against the truth, and their way to rewards."""
        return rating_figures(self.sessions, self.evidence.sessions)

    @property
    def bad_sessions(self) -> Rate:
        """The success of the version that was released by mistake."""
        return success_rate([each for each in self.sessions if each.version == self.bad_version])

    @property
    def bad_release_is_caught(self) -> bool:
        """True when the version that was released by mistake served users and was taken back."""
        caught = any(
            event.kind == "rolled back" and event.version == self.bad_version
            for event in self.events
        )
        return caught and self.bad_version is not None and self.bad_sessions.sessions > 0

    @property
    def cost_of_success(self) -> float | None:
        """The cost of all sessions by the number of right answers; None without one."""
        right = sum(session.right for session in self.sessions)
        costs = [each.cost for each in self.evidence.sessions.values() if each.cost is not None]
        return sum(costs) / right if right else None

    @property
    def staleness(self) -> dict[str, int]:
        """Versions of training behind the newest that a step was trained on → number of steps."""
        lags: Counter[int] = Counter()
        for step in self.evidence.steps:
            numbers = [int(version.removeprefix("v")) for version in step.versions]
            lags[max(numbers) - min(numbers)] += 1
        return {str(lag): count for lag, count in sorted(lags.items())}

    @property
    def promises(self) -> dict[str, bool]:
        """The promises that the demo checks, with true for each that was kept."""
        after, ratings = self.after.value or 0.0, self.ratings
        landed = {call.trajectory for each in self.sessions for call in each.calls}
        costs = [self.evidence.sessions[each].cost for each in landed & self._landed_ids]
        promises = {
            f"success rises to {self.settings.target:.0%} or more": after >= self.settings.target
            and after > (self.before.value or 0.0),
            "no session failed": not self.failures,
            "no session met two versions, but those of the version taken back": self.mixed == 0,
            "every session became one trajectory of its own": sessions_of_one_trajectory(
                self.sessions
            )
            and landed == self._landed_ids,
            "serving never stopped": self.longest_pause_s < LONGEST_PAUSE_S,
            "versions that it learned were promoted": len(self.evidence.lineage) > 1,
            "the cost of every session is known": None not in costs,
            "the saboteur's ratings are bounded": ratings.saboteur_share_of_rewards
            <= ratings.saboteur_bound,
        }
        if self.settings.bad_release_at is not None:
            promises["the bad release served users and was taken back"] = self.bad_release_is_caught
        return promises

    @property
    def _landed_ids(self) -> set[str]:
        return set(self.evidence.sessions)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form; numbers that do not exist are null."""
        return {
            "success_before": self.before.to_json(),
            "success_after": self.after.to_json(),
            "promises": self.promises,
            "framework": str(self.settings.framework),
            "seed": self.settings.start.seed,
            "sessions": len(self.sessions),
            "seconds_of_serving": round(self.serving_s, 1),
            "longest_pause_s": round(self.longest_pause_s, 2),
            "failed_sessions": self.failures,
            "mixed_sessions": self.mixed,
            "moved_sessions": self.moved,
            "by_version": {name: rate.to_json() for name, rate in self.by_version.items()},
            "live_versions": list(self.evidence.lineage),
            "bad_version": self.bad_version,
            "bad_version_success": self.bad_sessions.to_json(),
            "ratings": asdict(self.ratings),
            "staleness": self.staleness,
            "updates": len(self.evidence.steps),
            "recognition": self.evidence.recognition,
            "cost_of_success": self.cost_of_success,
            "logged_success": self.logged_success,
            "events": [
                {"at_s": round(each.at_s, 1), "event": each.kind, **each.fields}
                for each in self.events
                if each.kind != "waiting"
            ],
            "release_history": list(self.evidence.history),
            "wall_seconds": round(self.wall_seconds, 1),
            "step_seconds": {name: round(value, 1) for name, value in self.step_seconds.items()},
            "peak_memory_bytes": self.peak_bytes,
            "memory_at_peak": dict(self.at_peak),
            "home": str(self.home),
        }

    def write(self, file: Path) -> None:
        """Write `summary.json`."""
        text = json.dumps(self.to_json(), indent=1, default=str, allow_nan=False) + "\n"
        write_durably(file, text)

    def print(self, console: Console) -> None:
        """Print the results that a person wants to know."""
        ratings = self.ratings
        console.print(
            f"\nSuccess: [bold]{self.before.shown}[/] of the first {self.before.sessions} users, "
            f"[bold green]{self.after.shown}[/] of the last {self.after.sessions}; "
            f"{len(self.sessions):,} users in {self.serving_s:.0f} s, "
            f"{ratings.rated} of them rated, {ratings.wrong_share:.1%} wrongly."
        )
        versions = [f"{name} {rate.shown}" for name, rate in self.by_version.items()]
        console.print(f"By version: {', '.join(versions)}", highlight=False)
        for promise, kept in self.promises.items():
            style = "green" if kept else "bold red"
            console.print(Text(f"  {'yes' if kept else 'NO '}  {promise}", style=style))


def success_rate(sessions: Sequence[UserSession]) -> Rate:
    """Return the success of sessions, each of which is a task of its own."""
    return Rate(successes=sum(each.right for each in sessions), sessions=len(sessions))
