"""The analysis of a running canary: counts its sessions in the lake, judges and records them.

A session counts at the version of its first model call, because it keeps its engine to its end. It
counts only when it began after the comparison did: sessions that were running already met the live
version, whatever the share says. The outcome of a session is the mean of its trajectories' rewards.
A session without a reward has no outcome, which is not a failure.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from atdp.control.canary_judgement import CanaryCounts, Judgement
from atdp.control.events import CanaryResumed, CanaryShareRaised, CanaryStarted, Decided
from atdp.control.flow import ReleaseFlow
from atdp.control.guards import canary_to_judge, no_canary
from atdp.control.state import ReleaseState
from atdp.lakehouse import Lake, connect, sql_literal

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


@dataclass(frozen=True, kw_only=True, slots=True)
class CanaryAnalysis:
    """One analysis of a canary: the counted sessions and the judgement."""

    version: str
    share: float
    counts: CanaryCounts
    judgement: Judgement


def analyse_canary(flow: ReleaseFlow, lake: Lake) -> CanaryAnalysis:
    """Count, judge and record.

    PASS permits the next step, FAIL rolls the canary back, and a hold pauses it. An undecided
    analysis records no event. The analysis may be repeated at any time, because the bounds hold
    over all looks together.

    Raises:
        DecisionRefused: there is no canary, or it is paused.
    """
    state = flow.state()
    counts = count_sessions(lake, state, since=comparison_start(flow.history()))
    canary = canary_to_judge(state)
    judgement = flow.judge(counts)
    snapshots = {str(table): snapshot for table, snapshot in lake.snapshots().items()}
    flow.observe(canary.version, counts, snapshots=snapshots)
    return CanaryAnalysis(
        version=canary.version, share=canary.share, counts=counts, judgement=judgement
    )


def comparison_start(history: Sequence[Decided]) -> datetime:
    """Return the time when the canary's current step began or was resumed.

    Raises:
        DecisionRefused: no canary was ever started.
    """
    for decided in reversed(history):
        if isinstance(decided.body, CanaryStarted | CanaryShareRaised | CanaryResumed):
            return decided.occurred_at
    raise no_canary("judge")


def count_sessions(lake: Lake, state: ReleaseState, *, since: datetime) -> CanaryCounts:
    """Return the counts of the line's sessions that began at or after `since`, by version.

    Raises:
        DecisionRefused: there is no canary.
    """
    canary = canary_to_judge(state)
    if state.live is None:
        raise no_canary("judge")
    statement = _SESSIONS.format(
        tenants=", ".join(map(sql_literal, state.tenants)),
        since=sql_literal(since.astimezone(UTC).isoformat()),
        canary=sql_literal(canary.version),
        live=sql_literal(state.live.version),
        success_from=float(canary.policy.success_from),
    )
    with connect(lake=lake) as connection:
        by_version = {version: counts for version, *counts in connection.sql(statement).rows()}
    of_canary = by_version.get(canary.version, [0, 0, 0])
    of_live = by_version.get(state.live.version, [0, 0, 0])
    return CanaryCounts(
        canary_sessions=of_canary[0],
        canary_judged=of_canary[1],
        canary_successes=of_canary[2],
        stable_sessions=of_live[0],
        stable_judged=of_live[1],
        stable_successes=of_live[2],
    )
