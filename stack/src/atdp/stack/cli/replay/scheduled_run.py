"""`atdp replay run --schedule S --logical-time T`: the entry for systems that keep the time."""

import os
from datetime import timedelta
from typing import TYPE_CHECKING, NoReturn

import typer

from atdp.stack.cli.output import Format
from atdp.stack.cli.schedule.opened_schedules import schedules_of, time_of
from atdp.stack.cli.schedule.runs import exit_code_of, print_run, wait_for_end

if TYPE_CHECKING:
    from atdp.stack.schedules.schedule_access import CallersSchedules
    from atdp.stack.schedules.schedule_state import Run

_OWN_OPTIONS = frozenset({"schedule", "logical_time", "form", "as_json"})
_AFTER_DEADLINE = timedelta(minutes=1)
"""A run that passes its deadline ends within this time, when a scheduler is at work."""


def run_scheduled(schedule: str, logical_time: str | None, form: Format | None) -> NoReturn:
    """Request the run of a logical time, wait for its end, and end with its verdict's exit code.

    A run that exists is not made again: its verdict is given.
    """
    moment = time_of(logical_time or "", "--logical-time")
    with schedules_of(os.environ.get("ATDP_API_KEY")) as schedules:
        run = schedules.trigger(schedule, moment)
        if run.outcome is None:
            _warn_without_scheduler()
            run = wait_for_end(lambda: schedules.run(schedule, moment), _wait_s(schedules, run))
    print_run(run, form)
    raise typer.Exit(exit_code_of(run))


def refuse_further_options(context: typer.Context) -> None:
    """Check that nothing is asked for that the definition of the schedule decides.

    Raises:
        BadParameter: an option is given that would have no effect.
    """
    given = {name for name, value in context.params.items() if value not in (None, False)}
    if further := sorted(given - _OWN_OPTIONS):
        raise typer.BadParameter(
            "the definition of the schedule decides about it (`atdp schedule apply`)",
            param_hint="--" + further[0].replace("_", "-"),
        )


def _wait_s(schedules: "CallersSchedules", run: "Run") -> float:
    from atdp.runtime import utc_now
    from atdp.stack.schedules.refused_definition import accepted

    definition = accepted(schedules.show(run.schedule).definition)
    end = run.requested_at + timedelta(seconds=definition.deadline_s) + _AFTER_DEADLINE
    return max(0.0, (end - utc_now()).total_seconds())


def _warn_without_scheduler() -> None:
    from contextlib import closing

    from atdp.stack.cli.homes import existing_home
    from atdp.stack.schedules.schedule_store import schedules_url
    from atdp.stack.schedules.scheduler_lock import SchedulerLock

    with closing(SchedulerLock(existing_home().root / "schedules", schedules_url())) as lock:
        if lock.take():
            typer.echo(
                "No scheduler is at work: the run is requested and waits for `atdp up`.", err=True
            )
