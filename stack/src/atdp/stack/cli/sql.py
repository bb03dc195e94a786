"""`atdp sql`: queries of the lake."""

import sys
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from atdp.stack.cli.homes import existing_home
from atdp.stack.cli.output import (
    Format,
    JsonOption,
    TableFormatOption,
    cell_text,
    choose_format,
    print_csv,
    print_rows,
)

if TYPE_CHECKING:
    from atdp.lakehouse import QueryResult

_TABLE_ROWS = 100
_TABLE_CELL_CHARACTERS = 60


def add_to(app: typer.Typer) -> None:
    """Add the verb `sql` to the `atdp` command."""
    app.command()(sql)


def sql(  # noqa: PLR0913 (one for each option of the command)
    statement: Annotated[
        str, typer.Argument(metavar="SQL", help="One SELECT; `-` reads it from standard input.")
    ],
    tenant: Annotated[
        str | None,
        typer.Option(
            help="Only this tenant's rows, as its analysts see them (default: every row)."
        ),
    ] = None,
    purpose: Annotated[
        str | None,
        typer.Option(help="Only rows that allow this purpose: analytics, train, replay or export."),
    ] = None,
    form: TableFormatOption = Format.TABLE,
    as_json: JsonOption = False,
    max_rows: Annotated[
        int, typer.Option(help="More rows than this are an error.", min=1)
    ] = 1_000_000,
    timeout: Annotated[
        float, typer.Option(help="Seconds that the statement may take.", min=0.1)
    ] = 60.0,
) -> None:
    r"""Query the lake.

    Tables: events, steps, generations, rewards, latest_rewards, trajectories, audit,
    quarantine_index, evaluations, control_events.

    \b
    Example:
      atdp sql "SELECT weight_version, avg(reward) FROM trajectories GROUP BY ALL"
      atdp sql --tenant acme --format csv "SELECT * FROM steps LIMIT 20" > steps.csv
    """
    from atdp.lakehouse import connect

    with connect(existing_home(), tenant=tenant, purpose=purpose) as connection:
        text = sys.stdin.read() if statement == "-" else statement
        result = connection.sql(text, max_rows=max_rows, timeout_s=timeout)
    form = choose_format(form, as_json) or Format.TABLE
    if form is Format.JSON:
        typer.echo(result.to_json())  # exact types; NaN becomes null
    elif form is Format.CSV:
        print_csv(result.csv_cells())
    else:
        _print_table(result)


def _print_table(result: "QueryResult") -> None:
    rows = [
        {name: _cell(value) for name, value in row.items()} for row in result.dicts()[:_TABLE_ROWS]
    ]
    print_rows(rows, result.columns, Format.TABLE, folded=False)
    if len(result) > _TABLE_ROWS:
        typer.echo(f"… {len(result) - _TABLE_ROWS} more rows")


def _cell(value: object) -> object:
    if value is None:
        return "NULL"
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return str(value)  # all digits: the caller asked for this very number
    text = value.isoformat() if isinstance(value, datetime) else cell_text(value)
    line = text.replace("\n", "⏎")
    if len(line) <= _TABLE_CELL_CHARACTERS:
        return line
    return line[: _TABLE_CELL_CHARACTERS - 1] + "…"
