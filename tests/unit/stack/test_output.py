"""Results of commands as table, JSON and CSV."""

import csv
import io
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from atdp.stack.cli.app import build, whole_command
from atdp.stack.cli.output import Format, print_record, print_rows

RUNNER = CliRunner()
ROWS: list[dict[str, object]] = [
    {"name": "a,b", "value": 0.1, "more": [1, "ü"]},
    {"name": "[red]x", "value": None},
]


def printed(form: Format, capsys: pytest.CaptureFixture[str]) -> str:
    print_rows(ROWS, ["name", "value", "more"], form)
    return capsys.readouterr().out


def test_rows_as_json_keep_types_and_nulls(capsys: pytest.CaptureFixture[str]) -> None:
    assert json.loads(printed(Format.JSON, capsys)) == [
        {"name": "a,b", "value": 0.1, "more": [1, "ü"]},
        {"name": "[red]x", "value": None, "more": None},
    ]


def test_rows_as_csv_are_read_back_by_a_csv_reader(capsys: pytest.CaptureFixture[str]) -> None:
    rows = list(csv.reader(io.StringIO(printed(Format.CSV, capsys))))
    assert rows == [["name", "value", "more"], ["a,b", "0.1", '[1, "ü"]'], ["[red]x", "", ""]]


def test_rows_as_table_show_data_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert "[red]x" in printed(Format.TABLE, capsys)


def test_a_table_keeps_what_follows_a_tab(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows([{"name": "a\tb\tc"}], ["name"], Format.TABLE)
    assert "a   b   c" in capsys.readouterr().out


def test_a_table_that_is_not_folded_shows_every_column_on_a_narrow_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"FORCE_COLOR": "1", "TERM": "xterm", "COLUMNS": "40"}.items():
        monkeypatch.setenv(name, value)
    columns = [f"column-{number}" for number in range(20)]
    print_rows(
        [{column: f"{column} has a value" for column in columns}],
        columns,
        Format.TABLE,
        folded=False,
    )
    lines = capsys.readouterr().out.splitlines()
    assert any(all(f"{column} has a value" in line for column in columns) for line in lines)


def test_a_table_of_one_record_has_a_row_for_each_field(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_record({"home": "h", "endpoints": {"gateway": "g"}}, Format.TABLE)
    table = capsys.readouterr().out
    assert [line.split() for line in table.splitlines() if line.strip()][2:] == [
        ["home", "h"],
        ["endpoints", '{"gateway":', '"g"}'],
    ]


def test_csv_of_one_record_has_a_header_and_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    print_record({"home": "h", "was_running": True}, Format.CSV)
    assert capsys.readouterr().out == "home,was_running\nh,true\n"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ATDP_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("ATDP_KAFKA_BOOTSTRAP", raising=False)
    return tmp_path / "home"


def test_json_is_short_for_the_format_and_the_text_for_people_stays_the_default(
    home: Path,
) -> None:
    for arguments in (["--json"], ["--format", "json"], ["-f", "json"]):
        answer = RUNNER.invoke(build(), ["down", *arguments])
        assert json.loads(answer.stdout) == {"home": str(home), "was_running": False}
    answer = RUNNER.invoke(build(), ["down", "--format", "csv"])
    assert answer.stdout == f"home,was_running\n{home},false\n"
    assert RUNNER.invoke(build(), ["down"]).stdout == ""
    created = RUNNER.invoke(build(), ["keys", "create", "--tenant", "acme", "--role", "agent"])
    assert created.stdout.startswith("atdp_")


def test_csv_of_the_status_holds_the_services(home: Path) -> None:
    answer = RUNNER.invoke(build(), ["status", "--format", "csv"])
    assert answer.stdout == "service,state,pid,port,restarts,last exit,MB,remark\n"
    assert answer.exit_code == 3


def options(path: tuple[str, ...]) -> set[str]:
    command = whole_command()
    for word in path:
        command = command.commands[word]
    return {option for parameter in command.params for option in parameter.opts}


@pytest.mark.parametrize(
    "verb",
    [
        "up", "down", "status", "import", "wait", "sql", "train", "replay run", "demo",
        "keys create", "keys rotate", "keys list", "keys revoke",
        "dataset create", "dataset list", "dataset show",
        "control history", "control status", "control bootstrap", "control promote",
        "control rollback", "control reconcile", "control candidate list",
        "control candidate register", "control canary start", "control canary judge",
        "control canary advance", "control canary resume",
    ],
)  # fmt: skip
def test_every_verb_that_prints_a_result_has_format_and_json(verb: str) -> None:
    assert {"--format", "--json"} <= options(tuple(verb.split()))
