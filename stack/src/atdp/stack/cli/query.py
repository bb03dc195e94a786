"""`atdp sql`: questions to the lake."""

import sys
from typing import Annotated

import typer

from atdp.stack.cli.homes import existing_home
from atdp.stack.cli.output import Format, FormatOption


def add_to(app: typer.Typer) -> None:
    """Add the verb."""
    app.command()(sql)


def sql(
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
        typer.Option(help="Only rows that allow this purpose: analytics, train or replay."),
    ] = None,
    form: FormatOption = Format.TABLE,
    max_rows: Annotated[
        int, typer.Option(help="More rows than this are an error.", min=1)
    ] = 1_000_000,
    timeout: Annotated[
        float, typer.Option(help="Seconds that the statement may take.", min=0.1)
    ] = 60.0,
) -> None:
    r"""Ask the lake.

    Tables: events, steps, generations, rewards, latest_rewards, trajectories, audit,
    quarantine_index.

    \b
    Example:
      atdp sql "SELECT weight_version, avg(reward) FROM trajectories GROUP BY ALL"
      atdp sql --tenant acme --format csv "SELECT * FROM steps LIMIT 20" > steps.csv
    """
    from atdp.lakehouse import connect

    with connect(existing_home(), tenant=tenant, purpose=purpose) as connection:
        text = sys.stdin.read() if statement == "-" else statement
        result = connection.sql(text, max_rows=max_rows, timeout_s=timeout)
    if form is Format.JSON:
        typer.echo(result.to_json())
    elif form is Format.CSV:
        typer.echo(result.to_csv(), nl=False)
    else:
        typer.echo(result.to_table())
