"""`atdp rewards check`: identities of good files, line and column of what is wrong."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from atdp.rewards import DEFAULT_RULES
from atdp.stack.cli.app import build


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(build(), ["rewards", "check", *arguments])
    return result.exit_code, result.output


def test_a_good_file_has_an_identity(tmp_path: Path) -> None:
    file = tmp_path / "acme.yaml"
    file.write_text(DEFAULT_RULES)
    code, output = run(str(file), "--format", "json")
    assert code == 0
    (row,) = json.loads(output)
    assert row["identity"].startswith("1-")
    assert row["rules"] == ["rating", "edit"]


@pytest.mark.parametrize(
    ("content", "place"),
    [(b"version: 1\nrules:\n- {name: a, from: x}", ":3:3: rules.0"), (b"\xff", "cannot read")],
)
def test_a_wrong_file_is_named_with_its_place(tmp_path: Path, content: bytes, place: str) -> None:
    file = tmp_path / "acme.yaml"
    file.write_bytes(content)
    code, output = run(str(file))
    assert code == 1
    assert place in output
