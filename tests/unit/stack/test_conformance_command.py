"""`atdp conformance --file`: verdicts, exit codes, and errors that name the line."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import fastavro
import pytest
from typer.testing import CliRunner

from atdp.schemas import (
    VECTOR_FILES,
    contract_rules,
    event_to_record,
    newest,
    sequence_vectors,
    vector_text,
)
from atdp.stack.cli.app import build

RUNNER = CliRunner()
WHOLE = next(vector for vector in sequence_vectors() if vector.id == "sequence/whole")
SECRET = "Jane Roe 536-90-4399"


def written(path: Path, documents: Sequence[object]) -> Path:
    path.write_text("".join(json.dumps(each) + "\n" for each in documents), "utf-8")
    return path


def run(*arguments: object) -> Any:
    return RUNNER.invoke(build(), ["conformance", *map(str, arguments)])


def failed(done: Any) -> dict[str, list[str]]:
    rows = json.loads(done.stdout)
    return {row["rule"]: row["where"] for row in rows if row["verdict"] == "failed"}


def test_good_output_passes_and_rules_that_were_not_touched_are_named(tmp_path: Path) -> None:
    done = run("--file", written(tmp_path / "a.jsonl", WHOLE.events), "--json")
    assert done.exit_code == 0
    rows = {row["rule"]: row for row in json.loads(done.stdout)}
    assert {rule.id for rule in contract_rules()} < set(rows)
    assert rows["Event.event_id"]["passed"] == len(WHOLE.events)
    assert rows["Reward.content"]["passed"] == 2
    assert rows["Sequence.context_hash"]["passed"] == 2
    assert rows["Retrieval.not_negative"]["verdict"] == "not seen"


def test_a_broken_rule_is_named_with_line_and_field_and_no_value(tmp_path: Path) -> None:
    events = [*WHOLE.events, {**WHOLE.events[2], "seq": SECRET}]
    events[1] = {**events[1], "ext_json": SECRET}
    file = written(tmp_path / "a.jsonl", events)
    done = run("--file", file, "--json")
    assert done.exit_code == 1
    places = failed(done)
    assert places["Event.json_object"] == ["a.jsonl line 2 $.ext_json"]
    assert places["Event.encoding"][0].startswith(f"a.jsonl line {len(events)} $: $.seq: expected")
    assert set(places) == {"Event.json_object", "Event.encoding"}
    table, csv = run("--file", file), run("--file", file, "--format", "csv")
    assert "a.jsonl line 2 $.ext_json" in table.stdout
    assert csv.stdout.startswith("rule,verdict,passed,failed,where,sentence\n")
    for each in (done, table, csv):
        assert SECRET not in each.output


def test_several_files_are_one_log(tmp_path: Path) -> None:
    first = written(tmp_path / "a.jsonl", WHOLE.events[:3])
    second = written(tmp_path / "b.jsonl", WHOLE.events[3:])
    assert run("--file", first, "--file", second).exit_code == 0
    assert "Sequence.seq_gapless" in failed(run("--file", second, "--json"))


def test_an_avro_container_file_is_held_against_the_same_rules(tmp_path: Path) -> None:
    records = [event_to_record(event) for event in WHOLE.read()]
    records[-1] |= {"latency_us": -1}
    file = tmp_path / "a.avro"
    with file.open("wb") as opened:
        fastavro.writer(opened, newest("event").parsed, records)
    done = run("--file", file, "--json")
    assert failed(done) == {"Event.not_negative": [f"a.avro event {len(records)} $.latency_us"]}
    file.write_bytes(file.read_bytes()[:-20])
    damaged = run("--file", file)
    assert (damaged.exit_code, "damaged" in damaged.stderr) == (2, True)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b'{"seq": 1}\n{"seq": \n', "a.jsonl line 2: not JSON (column"),
        (b'{"seq": NaN}', "a.jsonl line 1: not JSON"),
        (b"\n\n\xff\xfe", "a.jsonl line 3: not JSON"),
        (b"[" * 100_000, "a.jsonl line 1: not JSON"),
        (b"\n", "there is no event in"),
        (None, "No such file"),
    ],
)
def test_unusable_input_is_exit_code_2_with_the_line(
    tmp_path: Path, content: bytes | None, says: str
) -> None:
    file = tmp_path / "a.jsonl"
    if content is not None:
        file.write_bytes(content)
    done = run("--file", file)
    assert (done.exit_code, done.stdout) == (2, "")
    assert says in done.stderr


def test_without_a_file_and_a_url_the_checks_of_this_installation_are_held_to_the_vectors(
    tmp_path: Path,
) -> None:
    done = run("--vectors", tmp_path / "vectors", "--json")
    assert (done.exit_code, failed(done)) == (0, {})
    for name in VECTOR_FILES:
        assert (tmp_path / "vectors" / name).read_text("utf-8") == vector_text(name)


def test_a_wrong_call_is_exit_code_2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ATDP_API_KEY", raising=False)
    assert run("--url", "http://127.0.0.1:1").exit_code == 2
    assert run("--url", "http://127.0.0.1:1", "--file", tmp_path / "a").exit_code == 2
