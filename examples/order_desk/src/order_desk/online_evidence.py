"""The evidence of the online demo: the lake's sessions, and the reports of the trainer."""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from atdp.control import describe_decision
from order_desk.demo_platform import DemoPlatform
from order_desk.lake_queries import Rows, query_lake
from order_desk.online_settings import RECOGNISED_SQL
from order_desk.settings import MODEL

_REST_S = 4.0
"""Longer than a round of the rewards worker."""

SESSIONS = f"""
SELECT trajectory_id, weight_version, status, reward, generations, cost,
       training_eligible AS eligible
FROM trajectories WHERE {RECOGNISED_SQL}
"""  # noqa: S608 (constants)

RECOGNITION = """
SELECT link.inferred_by AS rule, round(avg(link.confidence), 2) AS confidence, count(*) AS calls
FROM (
    SELECT unnest(links) AS link FROM events
    WHERE kind = 'action' AND action.type = 'generation' AND agent.id = 'unnamed'
)
WHERE link.inferred_by IS NOT NULL GROUP BY link.inferred_by ORDER BY calls DESC
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LandedSession:
    """One session as the lake has it."""

    version: str | None
    status: str
    reward: float | None
    """None: not rated, or rated beyond the limits."""
    calls: int
    cost: float | None
    eligible: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingStep:
    """One update of a run of `atdp learn`."""

    run: str
    step: int
    reward: float | None
    """Mean reward of its sessions."""
    versions: tuple[str, ...]
    """Versions that had served its sessions."""
    trajectories: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OnlineEvidence:
    """Everything that the summary reads from the platform."""

    sessions: Mapping[str, LandedSession]
    """By trajectory id."""
    recognition: Rows
    steps: Sequence[TrainingStep]
    history: Sequence[str]
    lineage: Sequence[str]
    """Versions that were live, in order."""


def wait_for_rewards(platform: DemoPlatform) -> None:
    """Wait until everything has landed, and the rewards that are derived from it.

    The rewards worker reads what has landed, so its rewards land later; it is at rest when none has
    come for a while.
    """
    before = -1
    while True:
        platform.wait_until_landed()
        (count,) = query_lake(platform.lake, "SELECT count(*) AS rewards FROM rewards")
        if count["rewards"] == before:
            return
        before = count["rewards"]
        time.sleep(_REST_S)


def collect_online_evidence(platform: DemoPlatform) -> OnlineEvidence:
    """Query the lake, once everything has landed, and read the reports of training."""
    rows = query_lake(platform.lake, SESSIONS)
    return OnlineEvidence(
        sessions={row["trajectory_id"]: _landed(row) for row in rows},
        recognition=query_lake(platform.lake, RECOGNITION),
        steps=_steps(platform),
        history=[
            f"{text.when} {text.what}" for text in map(describe_decision, platform.flow.history())
        ],
        lineage=platform.flow.state().lineage,
    )


def _landed(row: Mapping[str, Any]) -> LandedSession:
    return LandedSession(
        version=row["weight_version"],
        status=row["status"],
        reward=row["reward"],
        calls=row["generations"],
        cost=row["cost"],
        eligible=row["eligible"],
    )


def _steps(platform: DemoPlatform) -> list[TrainingStep]:
    runs = platform.home.root / "runs" / MODEL
    return [
        TrainingStep(
            run=file.parents[1].name,
            step=report["step"],
            reward=report["reward_mean"],
            versions=tuple(report["data_versions"]),
            trajectories=report["trajectories"],
        )
        for file in sorted(runs.glob("learn-*/steps/*.json"))
        for report in [json.loads(file.read_text("utf-8"))]
    ]
