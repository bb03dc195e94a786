"""`atdp replay list`: the recorded evaluations."""

from typing import Annotated

import typer

from atdp.stack.cli.homes import existing_home
from atdp.stack.cli.output import (
    Format,
    JsonOption,
    TableFormatOption,
    choose_format,
    print_rows,
)


def list_all(
    schedule: Annotated[str | None, typer.Option(help="Only of this schedule.")] = None,
    model: Annotated[str | None, typer.Option("--model", "-m", help="Only of this model.")] = None,
    last: Annotated[
        int, typer.Option(help="Number of the newest to list.", min=1, max=1_000_000)
    ] = 20,
    form: TableFormatOption = Format.TABLE,
    as_json: JsonOption = False,
) -> None:
    r"""List the recorded evaluations, newest first, from the lake's table `evaluations`.

    `repeatable`: `atdp replay run --repeat RUN` repeats it. Its report, its scores and its dataset
    are in this home, and this version of atdp makes such reports.

    \b
    Example:
      atdp replay list --model orderdesk
      atdp replay list --schedule nightly --last 100 --format csv
    """
    from atdp.stack.evaluations.evaluation_query import LISTED, SHORT_ID, list_evaluations

    rows = list_evaluations(existing_home(), schedule=schedule, model=model, last=last)
    chosen = choose_format(form, as_json) or Format.TABLE
    if not rows and chosen is Format.TABLE:
        typer.echo(
            "No evaluation is in the lake. `atdp replay run --record`, `atdp learn` and schedules "
            "record them."
        )
        return
    if chosen is Format.TABLE:
        rows = [{**row, "run_id": row["run_id"][:SHORT_ID]} for row in rows]
    print_rows(rows, [*LISTED, "repeatable"], chosen)
