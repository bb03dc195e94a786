"""Schedules and their runs, as values for people and programs."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, TypeAlias

from atdp.replay import Verdict
from atdp.stack.schedules.refused_definition import RefusedDefinition, StoredDefinition

RunCause: TypeAlias = Literal["clock", "data", "external", "manual", "backfill"]
RunStage: TypeAlias = Literal["requested", "running", "completed"]
ScheduleStage: TypeAlias = Literal["active", "paused", "removed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """The end of a run. `verdict` is ERROR where nothing could be evaluated because of an error."""

    verdict: Verdict
    reasons: tuple[str, ...]
    """Codes of the verdict's reasons."""
    text: str
    """One sentence for people."""
    candidate: str | None = None
    baseline: str | None = None
    dataset: str | None = None
    evaluation: str | None = None
    """Id of the evaluation (`ReplayReport.run_id`); None: nothing was evaluated."""
    report_sha256: str | None = None
    report: str | None = None
    """Path of the page, in the home."""
    gates: str | None = None
    """Path of the page about the gates over measured runs, in the home."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run of a schedule; there is one for each schedule and logical time."""

    schedule: str
    logical_time: datetime
    version: int
    """Version of the schedule with which it was requested, from 1."""
    cause: RunCause
    stage: RunStage
    requested_at: datetime
    actor: str
    candidate: str | None = None
    """The version that made the run necessary (`new_candidate`), or None."""
    key: str | None = None
    """The caller's idempotency key."""
    ended_at: datetime | None = None
    outcome: RunOutcome | None = None
    """None while the run has not ended."""

    @property
    def id(self) -> str:
        """The name of the run, such as `nightly@2026-11-22T03:00:00Z`."""
        return run_id(self.schedule, self.logical_time)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleStatus:
    """A schedule as it is now."""

    definition: StoredDefinition
    version: int
    stage: ScheduleStage
    changed_at: datetime
    actor: str
    """The person or service that changed it last."""
    next_at: datetime | None
    """Next logical time of the clock; None without `cron`, while the schedule is paused, and where
    its definition is refused."""
    last_run: Run | None
    open_runs: int
    """Runs that have not ended."""

    @property
    def problem(self) -> str | None:
        """The reason why nothing runs by the definition, with what to do; None: it is accepted."""
        if isinstance(self.definition, RefusedDefinition):
            return self.definition.message
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedSchedule:
    """The effect of `apply` on one schedule."""

    id: str
    change: Literal["added", "changed", "unchanged", "removed"]


def run_id(schedule: str, logical_time: datetime) -> str:
    """Return the name of a run; equal times have equal names, whatever their time zone.

    Raises:
        ValueError: the time has no time zone.
    """
    if logical_time.tzinfo is None:
        raise ValueError("a logical time needs a time zone, e.g. 2026-11-22T03:00:00Z")
    moment = logical_time.astimezone(UTC)
    return f"{schedule}@{moment.isoformat().removesuffix('+00:00')}Z"
