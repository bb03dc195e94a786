"""Counts the sessions that a canary is judged by, from what has landed.

A session counts at the version of its first model call, since it keeps its engine to its end, and
only when it began after the comparison did: sessions that were already running met the live version
whatever the share says. Its outcome is the mean of its trajectories' rewards; a session without any
is unjudged, not failed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from atdp.control.errors import DecisionRefused
from atdp.control.events import CanaryResumed, CanaryShareRaised, CanaryStarted, Decided
from atdp.control.flow import ReleaseFlow
from atdp.control.judge import CanaryCounts, Judgement
from atdp.control.state import ReleaseState
from atdp.lakehouse import Lake, connect, text

_SESSIONS = """
WITH sessions AS (
    SELECT tenant_id, coalesce(session_id, trajectory_id) AS session, min(started_at) AS began,
           arg_min(weight_version, started_at) AS version, avg(reward) AS reward
    FROM trajectories
    WHERE weight_version IS NOT NULL AND tenant_id IN ({tenants})
    GROUP BY ALL
)
SELECT version, count(*), count(reward), count(*) FILTER (reward >= {success_from})
FROM sessions
WHERE began >= TIMESTAMPTZ {since} AND version IN ({canary}, {live})
GROUP BY version
"""


def comparison_start(history: Sequence[Decided]) -> datetime:
    """When the canary's current step began, or was resumed. Raises `DecisionRefused` when none ever did."""
    for decided in reversed(history):
        if isinstance(decided.body, CanaryStarted | CanaryShareRaised | CanaryResumed):
            return decided.occurred_at
    raise DecisionRefused(
        "no_canary",
        "there is no canary to judge; `atdp control canary start` makes a candidate one",
    )


def count_sessions(lake: Lake, line: ReleaseState, *, since: datetime) -> CanaryCounts:
    """Sessions of the line's tenants that began at or after `since`, at the canary and at the live version.

    Raises `DecisionRefused` when there is no canary.
    """
    if line.canary is None or line.live is None:
        raise DecisionRefused(
            "no_canary",
            "there is no canary to judge; `atdp control canary start` makes a candidate one",
        )
    statement = _SESSIONS.format(
        tenants=", ".join(map(text, line.tenants)),
        since=text(since.astimezone(UTC).isoformat()),
        canary=text(line.canary.version),
        live=text(line.live.version),
        success_from=float(line.canary.policy.success_from),
    )
    with connect(lake=lake) as connection:
        found = {version: counts for version, *counts in connection.sql(statement).rows()}
    mine, theirs = (
        found.get(version, [0, 0, 0]) for version in (line.canary.version, line.live.version)
    )
    return CanaryCounts(
        canary_sessions=mine[0],
        canary_judged=mine[1],
        canary_successes=mine[2],
        stable_sessions=theirs[0],
        stable_judged=theirs[1],
        stable_successes=theirs[2],
    )


@dataclass(frozen=True, kw_only=True)
class CanaryAnalysis:
    """One look at a canary: what was counted and what follows."""

    version: str
    share: float
    counts: CanaryCounts
    judgement: Judgement


def analyse_canary(flow: ReleaseFlow, lake: Lake) -> CanaryAnalysis:
    """Count, judge and record: a PASS opens the next step, a FAIL rolls the canary back, a hold pauses it.

    Looking often is fine: the bounds hold over all looks together. An undecided look leaves no
    event.

    Raises `DecisionRefused` when there is no canary, or it is paused.
    """
    line = flow.state()
    counts = count_sessions(lake, line, since=comparison_start(flow.history()))
    if line.canary is None:
        raise DecisionRefused(
            "no_canary",
            "there is no canary to judge; `atdp control canary start` makes a candidate one",
        )
    judgement = flow.judge(counts)
    snapshots = {str(table): snapshot for table, snapshot in lake.snapshots().items()}
    flow.observe(line.canary.version, counts, snapshots=snapshots)
    return CanaryAnalysis(
        version=line.canary.version, share=line.canary.share, counts=counts, judgement=judgement
    )
