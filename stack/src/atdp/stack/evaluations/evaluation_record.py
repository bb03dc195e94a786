"""The record of an evaluation on the topic `atdp.evaluations`, made from its report.

The id follows from run, schedule and logical time, so that an evaluation that is published again
has the same id. A run that a schedule repeats at another tick is another evaluation.
"""

import math
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from atdp.replay import ReplayReport
from atdp.runtime import ANY_TENANT

_NUMBERS = ("estimate", "lower", "upper")


@dataclass(frozen=True, kw_only=True, slots=True)
class EvaluationOccasion:
    """The cause of an evaluation: the tick of a schedule, or neither for one by hand."""

    schedule: str | None = None
    logical_time: datetime | None = None

    def __post_init__(self) -> None:
        if self.logical_time is not None and self.logical_time.tzinfo is None:
            raise ValueError("the logical time of an evaluation needs a time zone")

    def event_id(self, run_id: str) -> str:
        """Return the id of the evaluation that a run is on this occasion."""
        tick = self.logical_time and self.logical_time.astimezone(UTC).isoformat()
        return str(uuid.uuid5(uuid.NAMESPACE_URL, f"atdp:{run_id}/{self.schedule}/{tick}"))


def evaluation_record(
    report: ReplayReport, occasion: EvaluationOccasion, at: datetime
) -> dict[str, Any]:
    """Return the fields of the contract `evaluation`, published at `at`.

    The tenant is that of the scored trajectories. Where there are several, or none, only an
    operator may see the row.
    """
    inputs, evaluation, config = report.inputs, report.evaluation, report.inputs.config
    tenants = {evidence.tenant for evidence in evaluation.tenants}
    weights = evaluation.candidate_weights
    return {
        "event_id": occasion.event_id(report.run_id),
        "tenant_id": tenants.pop() if len(tenants) == 1 else ANY_TENANT,
        "tenants": list(report.tenants),
        "run_id": report.run_id,
        "report_sha256": report.sha256,
        "schedule": occasion.schedule,
        "logical_time": occasion.logical_time,
        "model": inputs.candidate.model,
        "candidate": inputs.candidate.version,
        "candidate_sha256": inputs.candidate.weights_sha256,
        "baseline": inputs.baseline.version,
        "baseline_sha256": inputs.baseline.weights_sha256,
        "dataset": inputs.dataset.name,
        "dataset_sha256": inputs.dataset.content_sha256,
        "verdict": report.verdict.value,
        "reason_codes": [reason.code for reason in report.reasons],
        "mode": config.mode,
        "margin": config.margin,
        "alpha": config.alpha,
        "look": config.look,
        "estimator": config.decisive_estimate,
        **_numbers(report),
        "trajectories": evaluation.coverage.trajectories,
        "usable": evaluation.coverage.usable,
        "coverage": evaluation.coverage.trajectory_share,
        "tasks": evaluation.tasks,
        "effective_sample_size": None if weights is None else _finite(weights.least_ess),
        "logged_reward": evaluation.logged_mean_reward,
        "report_json": report.canonical().decode(),
        "occurred_at": at,
    }


def _numbers(report: ReplayReport) -> Mapping[str, float | None]:
    """Return estimate and bounds of both policies and of their difference, by column."""
    decisive = report.evaluation.decisive(report.inputs.config)
    numbers: dict[str, float | None] = {}
    for name, column in (
        ("candidate", "candidate_value"),
        ("baseline", "baseline_value"),
        ("difference", "difference"),
    ):
        interval = None if decisive is None else getattr(decisive, name)
        for part in _NUMBERS:
            value = None if interval is None else _finite(getattr(interval, part))
            numbers[column if part == "estimate" else f"{name}_{part}"] = value
    return numbers


def _finite(value: float) -> float | None:
    """Return a number, or None for a bound that is not there (infinite)."""
    return value if math.isfinite(value) else None
