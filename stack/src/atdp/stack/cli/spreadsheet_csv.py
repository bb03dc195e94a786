"""CSV that a spreadsheet shows as text and never runs: the option `--csv-safe`.

A spreadsheet takes a cell that begins with `=`, `+`, `-` or `@` for a formula, and a formula reads
files, starts programs and sends data away. Such a cell gets an apostrophe before it, which
spreadsheets read as "text follows"; numbers stay numbers. Control characters are escaped, and every
cell is quoted, so that a separator of another language in a cell begins no new one. What is written
so is for people: a program that reads it back finds other values.
"""

import re
from collections.abc import Iterable, Sequence
from contextvars import ContextVar
from typing import Annotated, Any

import typer

from atdp.stack.cli.terminal import escaped

_FORMULA = re.compile(r"\s*[=+\-@＝＋－＠]")
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
_asked_for: ContextVar[bool] = ContextVar("_asked_for", default=False)


def safe_csv_asked_for() -> bool:
    """Return whether the command that runs was called with `--csv-safe`."""
    return _asked_for.get()


def safe_csv(rows: Iterable[Sequence[str]]) -> str:
    """Return rows of cells as CSV that is safe in spreadsheets."""
    from atdp.runtime import csv_lines

    return csv_lines(([_safe_cell(cell) for cell in row] for row in rows), quote_all=True)


def add_csv_safe_option(command: Any) -> None:
    """Give `--csv-safe` to every verb in a tree of commands that has `--format`."""
    options = {text for parameter in command.params for text in parameter.opts}
    if "--format" in options and "--csv-safe" not in options:
        command.params.append(_csv_safe_option())
    for part in getattr(command, "commands", {}).values():
        add_csv_safe_option(part)


def _csv_safe_option() -> Any:
    """Return the option as Typer makes it for a function that has it."""
    app = typer.Typer(add_completion=False)
    app.command()(_verb_with_csv_safe)
    command: Any = typer.main.get_command(app)
    return next(each for each in command.params if "--csv-safe" in each.opts)


def _remember(value: bool) -> None:
    _asked_for.set(value)


def _verb_with_csv_safe(
    csv_safe: Annotated[
        bool,
        typer.Option(
            "--csv-safe",
            callback=_remember,
            expose_value=False,
            help="Print CSV in which a spreadsheet finds no formulas.",
        ),
    ] = False,
) -> None:
    """Have the option; never called."""


def _safe_cell(cell: str) -> str:
    shown = escaped(cell)
    if _NUMBER.fullmatch(cell) or not (_FORMULA.match(cell) or cell[:1] in {"\t", "\r"}):
        return shown
    return "'" + shown
