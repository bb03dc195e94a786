"""`atdp schedule report`: the trend of a schedule, as a table and as a page."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from atdp.stack.cli.callers import KeyOption, caller_of
from atdp.stack.cli.homes import existing_home
from atdp.stack.cli.output import (
    Format,
    JsonOption,
    TableFormatOption,
    choose_format,
    print_rows,
)
from atdp.stack.cli.output_files import writing
from atdp.stack.cli.schedule.opened_schedules import ScheduleArgument, schedules_of

if TYPE_CHECKING:
    from atdp.replay import TrendPoint

_COLUMNS = (
    "time",
    "verdict",
    "candidate",
    "baseline",
    "difference",
    "difference_lower",
    "difference_upper",
    "coverage",
    "regression",
    "drift",
    "run_id",
)


def report(
    schedule: ScheduleArgument,
    html: Annotated[
        Path | None, typer.Option(help="Write the page of the trend here.", dir_okay=False)
    ] = None,
    last: Annotated[
        int, typer.Option(help="Number of the newest runs.", min=1, max=1_000_000)
    ] = 100,
    key: KeyOption = None,
    form: TableFormatOption = Format.TABLE,
    as_json: JsonOption = False,
) -> None:
    r"""Show how the evaluations of a schedule go on: verdicts, estimates, drift and regressions.

    A run is a regression when its candidate is shown worse, or passed before and does not pass
    now. A value drifts when it leaves the band that the earlier runs with the same baseline set.

    \b
    Example:
      atdp schedule report nightly --html nightly.html
    """
    from atdp.runtime import ANY_TENANT
    from atdp.stack.evaluations.evaluation_query import SHORT_ID, trend_of, write_trend

    home = existing_home()
    caller = caller_of(home, key)
    tenant = None if caller.may_act_for(ANY_TENANT) else caller.tenant
    with schedules_of(key) as schedules:
        points = trend_of(home, schedule, tenant=tenant, last=last)
        if not points:
            schedules.show(schedule)  # a schedule that does not exist is an error
    chosen = choose_format(form, as_json) or Format.TABLE
    if points or chosen is not Format.TABLE:
        rows = [_row(point) for point in points]
        if chosen is Format.TABLE:
            rows = [{**row, "run_id": row["run_id"][:SHORT_ID]} for row in rows]
        print_rows(rows, _COLUMNS, chosen)
    else:
        typer.echo(f"The schedule {schedule} has no evaluation in the lake yet.")
    if html is not None:
        with writing(html):
            write_trend(home, schedule, points, html)
        typer.echo(str(html), err=chosen is not Format.TABLE)


def _row(point: "TrendPoint") -> dict[str, Any]:
    row = point.row
    return {
        **{name: getattr(row, name) for name in _COLUMNS if hasattr(row, name)},
        "regression": point.regression,
        "drift": ", ".join(point.drifts) or None,
    }
