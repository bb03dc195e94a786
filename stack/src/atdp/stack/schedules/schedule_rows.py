"""Schedules and runs as the rows that the command line and HTTP show."""

from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from atdp.stack.schedules.refused_definition import RefusedDefinition, StoredDefinition
from atdp.stack.schedules.schedule_definition import RunReceiver, ScheduleDefinition
from atdp.stack.schedules.schedule_state import Run, ScheduleStatus


def status_row(status: ScheduleStatus) -> dict[str, Any]:
    """Return a schedule as one row, without the rest of its definition."""
    definition, last = status.definition, status.last_run
    return {
        "id": definition.id,
        "stage": status.stage,
        **_named_by(definition),
        "tenants": list(definition.tenants),
        "next_at": time_text(status.next_at),
        "last_run": None if last is None else time_text(last.logical_time),
        "last_verdict": None if last is None or last.outcome is None else last.outcome.verdict,
        "open_runs": status.open_runs,
        "version": status.version,
        "changed_at": time_text(status.changed_at),
        "actor": status.actor,
        "problem": status.problem,
    }


def definition_row(definition: StoredDefinition, *, with_receivers: bool) -> dict[str, Any]:
    """Return what a definition sets beside the defaults, as a file for `schedule apply` has it.

    Part of the URL of a webhook may be a secret. Without `with_receivers`, only hosts and names of
    programs are shown, and of a refused definition, which may hold them anywhere, the id. With
    them, a refused definition is shown as it is stored.
    """
    if isinstance(definition, RefusedDefinition):
        return dict(definition.fields) if with_receivers else {"id": definition.id}
    row = definition.model_dump(mode="json", exclude_defaults=True)
    if definition.notify and not with_receivers:
        row["notify"] = [_receiver_name(each) for each in definition.notify]
    for receiver in row.get("notify", ()):
        if "verdicts" in receiver:
            receiver["verdicts"] = sorted(receiver["verdicts"])
    return row


def run_row(run: Run) -> dict[str, Any]:
    """Return a run as one row; the columns of its outcome are null while it has not ended."""
    outcome = run.outcome
    return {
        "run_id": run.id,
        "schedule": run.schedule,
        "logical_time": time_text(run.logical_time),
        "stage": run.stage,
        "cause": run.cause,
        "version": run.version,
        "requested_at": time_text(run.requested_at),
        "actor": run.actor,
        "ended_at": time_text(run.ended_at),
        "verdict": None if outcome is None else outcome.verdict,
        "reasons": [] if outcome is None else list(outcome.reasons),
        "text": None if outcome is None else outcome.text,
        "candidate": run.candidate if outcome is None else outcome.candidate,
        "baseline": None if outcome is None else outcome.baseline,
        "dataset": None if outcome is None else outcome.dataset,
        "evaluation": None if outcome is None else outcome.evaluation,
        "report": None if outcome is None else outcome.report,
        "gates": None if outcome is None else outcome.gates,
    }


def clock_text(definition: ScheduleDefinition) -> str:
    """Return when a schedule runs, such as `0 3 * * * Europe/Berlin` or `new_candidate`."""
    if definition.cron is not None:
        return f"{definition.cron} {definition.timezone}"
    if definition.on == "judged_trajectories":
        return f"{definition.count} judged_trajectories"
    return str(definition.on)


def time_text(moment: datetime | None) -> str | None:
    """Return a time in ISO 8601 in UTC, such as `2026-11-22T03:00:00Z`."""
    if moment is None:
        return None
    return moment.astimezone(UTC).isoformat().removesuffix("+00:00") + "Z"


def _named_by(definition: StoredDefinition) -> dict[str, Any]:
    """Return when a schedule runs and what it compares; null where that is refused."""
    if isinstance(definition, RefusedDefinition):
        return dict.fromkeys(("runs_on", "model", "candidate", "baseline"))
    return {
        "runs_on": clock_text(definition),
        "model": definition.model,
        "candidate": definition.candidate,
        "baseline": definition.baseline,
    }


def _receiver_name(receiver: RunReceiver) -> dict[str, str]:
    if receiver.webhook is not None:
        return {"webhook": urlsplit(receiver.webhook).hostname or ""}
    return {"command": "" if receiver.command is None else receiver.command[0]}
