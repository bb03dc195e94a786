"""Rows for people and for programs: table, JSON, CSV."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated

import typer


class Format(StrEnum):
    """How rows are printed."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


FormatOption = Annotated[Format, typer.Option("--format", help="How to print the result.")]
Row = Mapping[str, object]


def print_rows(
    rows: Sequence[Row], columns: Sequence[str], form: Format, *, title: str | None = None
) -> None:
    """Print rows to standard output.

    A value that is missing or None shows as an empty cell (null in JSON).
    """
    if form is Format.JSON:
        print_json([{column: row.get(column) for column in columns} for row in rows])
    elif form is Format.CSV:
        typer.echo(_csv(rows, columns), nl=False)
    else:
        _print_table(rows, columns, title)


def print_json(value: object) -> None:
    """Print any value as indented JSON; what JSON does not know (times, decimals, bytes) as text."""
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False, default=text))


def text(value: object) -> str:
    """A cell as text; nested values as JSON."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list | tuple | dict):
        return json.dumps(value, ensure_ascii=False, default=str)
    if isinstance(value, bytes):
        return value.hex()
    return str(value)


def _csv(rows: Sequence[Row], columns: Sequence[str]) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(columns)
    # repr of a float is exact; a table's six digits are for eyes only
    writer.writerows(
        [repr(v) if isinstance(v := row.get(column), float) else text(v) for column in columns]
        for row in rows
    )
    return buffer.getvalue()


def _print_table(rows: Sequence[Row], columns: Sequence[str], title: str | None) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title=title, title_justify="left", header_style="bold", box=SIMPLE_HEAD, pad_edge=False
    )
    for column in columns:
        values = [row.get(column) for row in rows]
        longest = max((len(text(value)) for value in values), default=0)
        table.add_column(
            column,
            justify="right" if _is_numeric(values) else "left",
            overflow="fold",
            no_wrap=longest <= _NEVER_FOLDED,
            min_width=min(longest, _NEVER_FOLDED),
        )
    for row in rows:
        table.add_row(
            *(Text(text(row.get(column))) for column in columns)
        )  # Text: cells are data, not markup
    console = Console()
    if not console.is_terminal:
        console = Console(width=_PIPE_WIDTH)
    console.print(table)


_NEVER_FOLDED = 12  # characters; a process id or a state in two lines reads badly
_PIPE_WIDTH = 10_000  # nobody wants cells folded at 80 columns in a file; a table is only as wide as its content


def _is_numeric(values: Sequence[object]) -> bool:
    numbers = [value for value in values if value is not None]
    return bool(numbers) and all(
        isinstance(value, int | float) and not isinstance(value, bool) for value in numbers
    )
