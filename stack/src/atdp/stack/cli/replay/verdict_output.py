"""The output of the verbs that judge: the report, its page, JUnit, and the exit code.

Files are written before anything is printed, so that a reader of the output that ends early takes
none away; and what is printed is printed also where a file cannot be written.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn, Protocol

import typer

from atdp.stack.cli.elapsed_line import elapsed_line
from atdp.stack.cli.output import Format, Row, print_record, print_rows
from atdp.stack.cli.output_files import writing

if TYPE_CHECKING:
    from atdp.replay import JUnitCase

ReportFile = Annotated[
    Path | None,
    typer.Option(help="Write the page here, and the same as JSON beside it.", dir_okay=False),
]
JUnitFile = Annotated[
    Path | None, typer.Option(help="Write the verdict here as JUnit XML.", dir_okay=False)
]


class JudgedReport(Protocol):
    """A report with a verdict."""

    @property
    def exit_code(self) -> int:
        """The exit code of the verdict."""
        ...

    def junit_cases(self) -> "Sequence[JUnitCase]":
        """Return the verdicts for JUnit."""
        ...

    def text(self) -> str:
        """Return a short summary for a terminal."""
        ...

    def canonical(self) -> bytes:
        """Return the canonical JSON of the report."""
        ...


@dataclass(frozen=True, slots=True)
class VerdictFiles:
    """The files that a call asks for."""

    page: Path | None = None
    junit: Path | None = None

    @contextmanager
    def judging(self) -> Iterator[None]:
        """Keep a JUnit file that says ERROR, beside the block that makes the report.

        So a file of an earlier verdict is not taken for that of a call that was killed. A terminal
        shows how long the block takes.
        """
        from atdp.replay import junit_error

        self._write_junit(lambda: junit_error("the evaluation has not ended"))
        try:
            with elapsed_line("judging"):
                yield
        except Exception as error:
            message = f"{type(error).__name__}: {error}"
            self._write_junit(lambda: junit_error(message))
            raise

    def write(
        self, report: JudgedReport, write_page: Callable[[Path], Sequence[Path]]
    ) -> Sequence[Path]:
        """Write the files; returns those of the page.

        Raises:
            OutputUnwritable: one cannot be written.
        """
        from atdp.replay import junit_xml

        self._write_junit(lambda: junit_xml(report))
        if self.page is None:
            return ()
        with writing(self.page):
            return write_page(self.page)

    def _write_junit(self, text: Callable[[], str]) -> None:
        if self.junit is None:
            return
        with writing(self.junit):
            self.junit.parent.mkdir(parents=True, exist_ok=True)
            self.junit.write_text(text(), encoding="utf-8")


def end(
    report: JudgedReport,
    form: Format | None,
    files: VerdictFiles,
    write_page: Callable[[Path], Sequence[Path]],
    *,
    rows: Sequence[Row] | None = None,
) -> NoReturn:
    """Write the files, print the report, and end with the exit code of its verdict."""
    show(report, form, files, write_page, rows=rows)
    raise typer.Exit(report.exit_code)


def show(
    report: JudgedReport,
    form: Format | None,
    files: VerdictFiles,
    write_page: Callable[[Path], Sequence[Path]],
    *,
    rows: Sequence[Row] | None = None,
) -> None:
    """Write the files and print the report; tables and CSV have its `rows`, or its fields.

    Raises:
        OutputUnwritable: a file cannot be written; the report has been printed.
    """
    written: Sequence[Path] = ()
    try:
        written = files.write(report, write_page)
    finally:
        _print(report, form, rows)
    if written:
        typer.echo("\n".join(map(str, written)), err=form is not None)


def _print(report: JudgedReport, form: Format | None, rows: Sequence[Row] | None) -> None:
    if form is None:
        typer.echo(report.text())
    elif form is Format.JSON:
        typer.echo(report.canonical().decode())  # the bytes that the report's digest is of
    elif rows is not None:
        print_rows(rows, list(rows[0]), form)
    else:
        print_record(json.loads(report.canonical()), form)
