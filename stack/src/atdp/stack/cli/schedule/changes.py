"""Verbs about schedules that exist: list, show, pause, resume, remove, and their webhooks."""

from typing import TYPE_CHECKING, Annotated

import typer

from atdp.stack.cli.callers import KeyOption, caller_of
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
from atdp.stack.cli.schedule.opened_schedules import ReasonOption, ScheduleArgument, schedules_of

if TYPE_CHECKING:
    from atdp.stack.schedules.schedule_state import ScheduleStatus

_COLUMNS = (
    "id",
    "stage",
    "runs_on",
    "model",
    "candidate",
    "baseline",
    "next_at",
    "last_run",
    "last_verdict",
    "open_runs",
)


def list_schedules(
    key: KeyOption = None, form: TableFormatOption = Format.TABLE, as_json: JsonOption = False
) -> None:
    r"""List the schedules, with the next time of the clock and the last run.

    A schedule whose stored definition this version refuses is listed with the problem.

    \b
    Example:
      atdp schedule list
      atdp schedule list --format json
    """
    from atdp.stack.schedules.schedule_rows import status_row

    with schedules_of(key) as schedules:
        rows = [status_row(each) for each in schedules.list()]
    chosen = choose_format(form, as_json) or Format.TABLE
    if not rows and chosen is Format.TABLE:
        typer.echo("There is no schedule yet; `atdp schedule add` makes one.")
        return
    if chosen is not Format.TABLE:
        print_rows(rows, list(rows[0]) if rows else _COLUMNS, chosen)
        return
    refused = [row["problem"] for row in rows if row["problem"] is not None]
    rows = [row if row["problem"] is None else {**row, "stage": "refused"} for row in rows]
    print_rows(rows, _COLUMNS, chosen)
    for problem in refused:
        typer.echo(problem, err=True)


def show(
    schedule: ScheduleArgument,
    key: KeyOption = None,
    form: TableFormatOption = Format.TABLE,
    as_json: JsonOption = False,
) -> None:
    r"""Show a schedule and its definition.

    \b
    Example:
      atdp schedule show nightly --format json
    """
    from atdp.stack.schedules.schedule_rows import definition_row, status_row

    with schedules_of(key) as schedules:
        status = schedules.show(schedule)
        definition = definition_row(status.definition, with_receivers=schedules.may_see_receivers)
    chosen = choose_format(form, as_json) or Format.TABLE
    print_record({**status_row(status), "definition": definition}, chosen)


def pause(
    schedule: ScheduleArgument,
    reason: ReasonOption = "",
    key: KeyOption = None,
    form: FormatOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Let clock and data request no further runs; runs that were requested go on.

    \b
    Example:
      atdp schedule pause nightly --reason "the engines are being moved"
    """
    with schedules_of(key) as schedules:
        status = schedules.pause(schedule, reason=reason)
    _print_status(status, choose_format(form, as_json))


def resume(
    schedule: ScheduleArgument,
    reason: ReasonOption = "",
    key: KeyOption = None,
    form: FormatOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Let clock and data request runs again, from now on.

    Times that passed during the pause get no run; `atdp schedule backfill` requests them.

    \b
    Example:
      atdp schedule resume nightly
    """
    with schedules_of(key) as schedules:
        status = schedules.resume(schedule, reason=reason)
    _print_status(status, choose_format(form, as_json))


def remove(
    schedule: ScheduleArgument,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    key: KeyOption = None,
    form: FormatOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Remove a schedule. Its runs and their evaluations stay, and runs that are open go on.

    \b
    Example:
      atdp schedule remove nightly --yes
    """
    with schedules_of(key) as schedules:
        open_runs = schedules.show(schedule).open_runs
        if not yes:
            typer.confirm(f"Remove {schedule}? It has {open_runs} open runs.", abort=True, err=True)
        schedules.remove(schedule)
    chosen = choose_format(form, as_json)
    if chosen is None:
        typer.echo(f"removed {schedule}", err=True)
    else:
        print_record({"id": schedule, "removed": True}, chosen)


def webhook_secret(
    url: Annotated[str, typer.Argument(metavar="URL", help="The webhook, as schedules name it.")],
    key: KeyOption = None,
    form: FormatOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Print the secret with which the receiver of a webhook checks notices. Needs an operator.

    Every URL has a secret of its own. Libraries for Standard Webhooks take it as it is.

    \b
    Example:
      atdp schedule webhook-secret https://ci.example/atdp
    """
    from pydantic import ValidationError

    from atdp.runtime import ANY_TENANT
    from atdp.stack.schedules.run_notices import webhook_secret as secret_of
    from atdp.stack.schedules.schedule_access import ScheduleDenied
    from atdp.stack.schedules.schedule_definition import RunReceiver

    try:
        RunReceiver(webhook=url)
    except ValidationError as error:
        raise typer.BadParameter(
            f"no schedule can name {url!r}; give a URL such as https://ci.example/atdp",
            param_hint="URL",
        ) from error
    home = existing_home()
    caller = caller_of(home, key)
    if not (caller.may("evaluate") and caller.may_act_for(ANY_TENANT)):
        raise ScheduleDenied(f"{caller.actor} may not see secrets of webhooks; an operator may")
    secret = secret_of(home, url)
    chosen = choose_format(form, as_json)
    if chosen is None:
        typer.echo(secret)
    else:
        print_record({"url": url, "secret": secret}, chosen)


def _print_status(status: "ScheduleStatus", form: Format | None) -> None:
    from atdp.stack.schedules.schedule_rows import status_row

    row = status_row(status)
    if form is not None:
        print_record(row, form)
        return
    then = "" if row["next_at"] is None else f"; the next run is that of {row['next_at']}"
    typer.echo(f"{row['id']} is {row['stage']}{then}")
