"""Verbs about runs: request one, request those of a past time, list them."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from atdp.stack.cli.callers import KeyOption
from atdp.stack.cli.homes import existing_home
from atdp.stack.cli.output import (
    Format,
    FormatOption,
    JsonOption,
    TableFormatOption,
    choose_format,
    print_record,
    print_rows,
)
from atdp.stack.cli.schedule.opened_schedules import ScheduleArgument, schedules_of, time_of

if TYPE_CHECKING:
    from atdp.stack.schedules.schedule_state import Run

_COLUMNS = ("logical_time", "stage", "cause", "verdict", "reasons", "candidate", "baseline")
_ASK_EVERY_S = 1.0

LogicalTimeOption = Annotated[
    str | None,
    typer.Option(help="Time that the run stands for, e.g. 2026-11-22T03:00:00Z (default: now)."),
]


def trigger(  # noqa: PLR0913 (one for each option of the command)
    schedule: ScheduleArgument,
    logical_time: LogicalTimeOption = None,
    idempotency_key: Annotated[
        str | None, typer.Option(help="Requests with the same key are one run.")
    ] = None,
    wait: Annotated[
        float, typer.Option("--wait", help="Seconds to wait for the end of the run.", min=0)
    ] = 0.0,
    key: KeyOption = None,
    form: FormatOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Request a run. A logical time has one run: a repeated request returns it.

    Without --wait the exit code is 0 when the run is requested. With --wait it is that of the
    verdict, as of `atdp replay run`: 0 PASS, 1 FAIL, 2 INCONCLUSIVE, 3 ERROR or not ended in time.
    An error and a wrong call have the code 3.

    \b
    Example:
      atdp schedule trigger nightly
      atdp schedule trigger nightly --logical-time 2026-11-22T03:00:00Z --wait 3600
    """
    moment = None if logical_time is None else time_of(logical_time, "--logical-time")
    with schedules_of(key) as schedules:
        run = schedules.trigger(schedule, moment, idempotency_key)
        if wait:
            run = wait_for_end(lambda: schedules.run(schedule, run.logical_time), wait)
    print_run(run, choose_format(form, as_json))
    if wait:
        raise typer.Exit(exit_code_of(run))


def backfill(
    schedule: ScheduleArgument,
    since: Annotated[str, typer.Option(help="First time, e.g. 2026-11-01T00:00:00Z.")],
    until: Annotated[str, typer.Option(help="End; a run of exactly this time is left out.")],
    key: KeyOption = None,
    form: TableFormatOption = Format.TABLE,
    as_json: JsonOption = False,
) -> None:
    r"""Request a run for every time of the schedule's clock in a past period.

    Times that have a run keep it.

    \b
    Example:
      atdp schedule backfill nightly --since 2026-11-01T00:00:00Z --until 2026-11-08T00:00:00Z
    """
    first, end = time_of(since, "--since"), time_of(until, "--until")
    with schedules_of(key) as schedules:
        runs = schedules.backfill(schedule, first, end)
    _print_runs(runs, choose_format(form, as_json) or Format.TABLE, "The clock has no time there.")


def list_runs(
    schedule: ScheduleArgument,
    limit: Annotated[int, typer.Option(help="Most runs.", min=1)] = 20,
    key: KeyOption = None,
    form: TableFormatOption = Format.TABLE,
    as_json: JsonOption = False,
) -> None:
    r"""List the runs of a schedule, those of the latest times first.

    \b
    Example:
      atdp schedule runs nightly --limit 50 --format csv
    """
    with schedules_of(key) as schedules:
        runs = schedules.runs(schedule, limit=limit)
    _print_runs(runs, choose_format(form, as_json) or Format.TABLE, "There is no run yet.")


def wait_for_end(ask: "Callable[[], Run]", timeout_s: float) -> "Run":
    """Return a run when it has ended, or as it is after `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while (run := ask()).outcome is None and (left_s := deadline - time.monotonic()) > 0:
        time.sleep(min(_ASK_EVERY_S, left_s))
    return run


def exit_code_of(run: "Run") -> int:
    """Return the exit code of a run's verdict; that of ERROR for a run that has not ended."""
    from atdp.replay import Verdict

    return (Verdict.ERROR if run.outcome is None else run.outcome.verdict).exit_code


def print_run(run: "Run", form: Format | None) -> None:
    """Print one run: a sentence, or its row."""
    from atdp.stack.schedules.schedule_rows import run_row

    if form is not None:
        print_record(run_row(run), form)
    elif run.outcome is None:
        typer.echo(f"{run.id} is {run.stage}; `atdp schedule runs {run.schedule}` shows its end")
    else:
        typer.echo(f"{run.id}: {run.outcome.verdict}: {run.outcome.text}")
        if run.outcome.report is not None:
            typer.echo(str(existing_home().root / run.outcome.report))


def _print_runs(runs: "tuple[Run, ...]", form: Format, nothing: str) -> None:
    from atdp.stack.schedules.schedule_rows import run_row

    rows = [run_row(each) for each in runs]
    if form is Format.TABLE:
        if not rows:
            typer.echo(nothing)
            return
        rows = [{**row, "reasons": ", ".join(row["reasons"])} for row in rows]
    print_rows(rows, list(rows[0]) if rows and form is not Format.TABLE else _COLUMNS, form)
