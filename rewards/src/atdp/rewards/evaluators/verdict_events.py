"""Verdicts as events: annotations named `judge:<name>`, under ids that follow from their targets.

The id follows from the end of the trajectory, the evaluator and its identity, and not from what was
answered: repeating an evaluation cannot give a second verdict beside the first. The verdict is
dated by the end that it judges, so that of a trajectory that went on, the verdict on the newest end
counts, in whatever order the verdicts came.
"""

import json
from collections.abc import Iterator
from datetime import UTC, datetime

from atdp.rewards.evaluators.ended_trajectory import EndedTrajectory
from atdp.rewards.evaluators.journal import QueuedEvaluation
from atdp.rewards.evaluators.verdict import Answer, JudgeVerdict
from atdp.schemas import (
    JUDGE_PREFIX,
    Agent,
    Annotation,
    Event,
    Source,
    TenantId,
    TrajectoryId,
    deterministic_event_id,
)

_SOURCE = Source(format="evaluators", version="1")


def verdict_event_id(end: EndedTrajectory, evaluator: str, identity: str) -> str:
    """Return the id of the verdict of an evaluator on an end."""
    # Time of the id: a bounded one, since the producer of the end chose its time.
    at = max(end.ended_at, datetime(2000, 1, 1, tzinfo=UTC))
    return deterministic_event_id(
        at,
        "verdict",
        end.tenant,
        end.trajectory,
        str(end.attempt),
        end.end_event_id,
        evaluator,
        identity,
    )


def verdict_events(evaluation: QueuedEvaluation) -> Iterator[Event]:
    """Yield the events of an answered evaluation: the trajectory's verdict, then its steps'."""
    answer = Answer.from_json(evaluation.answer or "null")
    extra: dict[str, object] = {"end_event_id": evaluation.end.end_event_id}
    if answer.model is not None:
        extra["model"] = answer.model
    if answer.cut:
        extra["cut"] = True
    if answer.verdict is not None:
        yield _event(evaluation, answer.annotator, answer.verdict, extra, step=None)
    for step in answer.steps:
        yield _event(evaluation, answer.annotator, step, extra, step=step.step)


def _event(
    evaluation: QueuedEvaluation,
    annotator: str,
    verdict: JudgeVerdict,
    extra: dict[str, object],
    *,
    step: int | None,
) -> Event:
    end = evaluation.end
    event_id = evaluation.event_id
    if step is not None:
        event_id = deterministic_event_id(end.ended_at, "step", evaluation.event_id, str(step))
    value = {"score": verdict.score, "reason": verdict.reason, **extra}
    return Event(
        event_id=event_id,  # type: ignore[arg-type]
        tenant_id=TenantId(end.tenant),
        trajectory_id=TrajectoryId(end.trajectory),
        attempt=end.attempt,
        # Each verdict is numbered by itself: its producer emits nothing else.
        producer_id=f"evaluator-{event_id}",
        seq=0,
        step=step or 0,
        occurred_at=end.ended_at,
        session_id=end.session,
        task_id=end.task,
        agent=Agent(id=end.agent),
        source=_SOURCE,
        status="ok",
        body=Annotation(
            target_kind="trajectory" if step is None else "step",
            target_step=step,
            name=f"{JUDGE_PREFIX}{evaluation.evaluator}",
            value_json=json.dumps(value, ensure_ascii=False),
            annotator=annotator,
            annotator_version=evaluation.identity,
            observed_at=end.ended_at,
        ),
    )
