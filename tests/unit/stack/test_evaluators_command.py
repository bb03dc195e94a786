"""`atdp evaluators`: files with their places, what is parked and why, and trying it again."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner

from atdp.rewards import EvaluationJournal, journal_file
from atdp.rewards.evaluators.ended_trajectory import EndedTrajectory
from atdp.rewards.evaluators.journal import ClaimTerms
from atdp.runtime import Home
from atdp.stack.cli.app import build

GOOD = """\
version: 2
evaluators:
- name: helpful
  kind: judge
  base_url: http://127.0.0.1:9/v1
  model: judge-1
  prompt: {text: "{{ conversation }}"}
  budget: {calls_per_day: 5}
"""


def run(home: Path, *arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(build(), ["--home", str(home), "evaluators", *arguments])
    return result.exit_code, result.output


def write(home: Path, text: str) -> Path:
    file = home / "evaluators" / "acme.yaml"
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    return file


def park_one(home: Path) -> None:
    end = EndedTrajectory(
        tenant="acme",
        trajectory="t-0",
        attempt=0,
        end_event_id="e",
        ended_at=datetime(2026, 3, 4, tzinfo=UTC),
        status="completed",
        agent="a",
        session=None,
        task=None,
        partition=0,
        offset=0,
    )
    journal = EvaluationJournal(journal_file(Home(home)))
    journal.add_ends([end])
    journal.list_evaluations(end, {"id": ("helpful", "2-x")})
    terms = ClaimTerms(owner="w", now=1.0, until=9.0, partitions=[0], most=1)
    assert len(journal.claim("acme", "helpful", terms)) == 1
    assert journal.park("id", owner="w", due_at=4e9, code="down", reason="no answer")
    journal.close()


def test_a_good_file_has_identities(tmp_path: Path) -> None:
    code, output = run(tmp_path, "check", str(write(tmp_path, GOOD)), "--json")
    assert code == 0
    (row,) = json.loads(output)
    assert row["identity"].startswith("2-")
    assert row["by"] == "judge-1"


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ("model:", "modle:", ":6:3: evaluators.0.modle"),
        ("{{ conversation }}", "{{ secret }}", "unknown placeholder 'secret'"),
        ("{{ conversation }}", "{% if %}", "line 1"),
        ("{{ conversation }}", "judge it", "does not show {{ conversation }}"),
        ('text: "{{ conversation }}"', "file: gone.txt", "gone.txt"),
        ("{calls_per_day: 5}", "{cost_per_day: 5}", "budget.cost_per_day needs price"),
        ("base_url: http", "base_url: ftp", ":5:3: evaluators.0.base_url"),
        ("kind: judge", "kind: callable\n  function: 'no.such:f'", ":6:3: evaluators.0.base_url"),
    ],
)
def test_a_wrong_file_is_named_with_its_place(
    tmp_path: Path, old: str, new: str, place: str
) -> None:
    assert old in GOOD
    code, output = run(tmp_path, "check", str(write(tmp_path, GOOD.replace(old, new))))
    assert code == 1
    assert place in output


def test_a_missing_module_is_named(tmp_path: Path) -> None:
    text = "version: 1\nevaluators: [{name: c, kind: callable, function: 'no.such:f'}]\n"
    code, output = run(tmp_path, "check", str(write(tmp_path, text)))
    assert code == 1
    assert "no module no.such" in output


def test_what_is_parked_is_shown_with_its_reason_and_can_be_tried_again(tmp_path: Path) -> None:
    write(tmp_path, GOOD)
    park_one(tmp_path)
    (row,) = json.loads(run(tmp_path, "status", "--json")[1])
    assert (row["parked"], row["pending"], row["calls_per_day"]) == ({"down": 1}, 0, 5)
    assert row["next_try_at"].startswith("2096")
    assert run(tmp_path, "retry", "--tenant", "other")[1].startswith("0 ")
    assert run(tmp_path, "retry")[1].startswith("1 ")
    (row,) = json.loads(run(tmp_path, "status", "--json")[1])
    assert row["next_try_at"].startswith("1970")


def test_a_wrong_file_is_shown_in_the_status(tmp_path: Path) -> None:
    write(tmp_path, "version: 1\nevaluators: []")
    (row,) = json.loads(run(tmp_path, "status", "--json")[1])
    assert "acme.yaml:1:1" in row["problem"]
