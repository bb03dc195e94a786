"""`atdp policy evaluate` prints rows for people and programs, and errors in one line."""

import json
from pathlib import Path

from typer.testing import CliRunner

from atdp.stack.cli.app import build

TEXT = "Write to kira@zedmail.com today."
LABELLED = {
    "full_text": TEXT,
    "spans": [{"entity_type": "EMAIL_ADDRESS", "start_position": 9, "end_position": 25}],
}


def test_rows_of_policy_and_presidio_as_json(tmp_path: Path) -> None:
    file = tmp_path / "labelled.jsonl"
    file.write_text(json.dumps(LABELLED) + "\n")
    result = CliRunner().invoke(build(), ["policy", "evaluate", str(file), "--format", "json"])
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)
    whole = {row["detector"]: row for row in rows if row["entity"] == "ALL"}
    assert set(whole) >= {"policy default@1", "presidio patterns"}
    assert all(row["f2"] == 1 for row in whole.values())


def test_a_file_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    result = CliRunner().invoke(build(), ["policy", "evaluate", str(tmp_path / "absent.json")])
    assert result.exit_code == 1
    assert result.stderr.startswith("error: cannot read ")
    assert result.stderr.count("\n") == 1


def test_a_file_in_another_encoding_is_named_in_words(tmp_path: Path) -> None:
    file = tmp_path / "labelled.json"
    file.write_bytes("[\u00e9]".encode("latin-1"))
    result = CliRunner().invoke(build(), ["policy", "evaluate", str(file)])
    assert (result.exit_code, result.stderr) == (
        1,
        f"error: cannot read {file}: it is not UTF-8 text\n",
    )


def test_home_after_the_verb_is_explained() -> None:
    result = CliRunner().invoke(build(), ["up", "--home", "X"])
    assert (result.exit_code, "before the verb" in result.stderr) == (2, True)
