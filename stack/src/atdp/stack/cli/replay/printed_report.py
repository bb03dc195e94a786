"""A replay report as text, table, JSON or CSV, and as files."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from atdp.stack.cli.output import Format, print_record

if TYPE_CHECKING:
    from atdp.replay import ReplayReport


def print_report(report: "ReplayReport", page: Path | None, form: Format | None) -> None:
    """Print a report, and write the page and its JSON where a `page` is given."""
    from atdp.replay import write_report

    if form is None:
        typer.echo(report.text())
    elif form is Format.JSON:
        typer.echo(report.canonical().decode())  # the bytes that the report's digest is of
    else:
        print_record(json.loads(report.canonical()), form)
    if page is not None:
        written = write_report(report, page)
        typer.echo("\n".join(map(str, written)), err=form is not None)
