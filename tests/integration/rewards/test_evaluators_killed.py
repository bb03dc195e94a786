"""Evaluators killed at their worst points: one verdict, paid once wherever that is possible."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from .evaluator_rig import EvaluatorRig, judge_text
from .fake_judge import FakeJudge

pytestmark = pytest.mark.faults

Worker = Callable[..., int]
SCRIPT = Path(__file__).with_name("killable_evaluator.py")


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    process = subprocess.Popen(
        [sys.executable, str(SCRIPT)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        commands, exits = process.stdin, process.stdout

        def run(folder: Path, point: str = "none", guard: str = "on") -> int:
            print(json.dumps([str(folder), point, guard]), file=commands, flush=True)
            return int(exits.readline())

        yield run
        commands.close()


def killed_and_restarted(
    folder: Path, judge: FakeJudge, run: Worker, point: str, guard: str = "on"
) -> list[dict[str, Any]]:
    """Return what two processes sent, of which the first was killed at `point`."""
    rig = EvaluatorRig(folder)
    rig.write(judge_text(judge.url))
    assert run(folder, point, guard) == -signal.SIGKILL
    assert not (folder / "committed").exists()
    assert run(folder, "none", guard) == 0
    assert (folder / "committed").exists()
    sent = rig.producer.lines()
    rig.close()
    return sent


@pytest.mark.parametrize(
    ("point", "calls", "sent"),
    # Nobody can know whether an answer that was not written down has been paid: it is asked for
    # again, and both calls count against the budget.
    [("answer", 2, 1), ("journal", 1, 1), ("emission", 1, 2)],
)
def test_a_kill_leaves_one_verdict(
    tmp_path: Path, judge: FakeJudge, worker: Worker, point: str, calls: int, sent: int
) -> None:
    lines = killed_and_restarted(tmp_path, judge, worker, point)
    assert len(lines) == sent
    assert all(line == lines[0] for line in lines)
    assert judge.calls == calls
    assert len({headers["Idempotency-Key"] for headers in judge.headers}) == 1
    rig = EvaluatorRig(tmp_path)
    assert rig.states() == {"emitted": 1}
    assert rig.spending.spent("acme", "helpful", "2026-03-04")[0] == calls
    rig.close()


def test_without_the_journal_the_same_kill_gives_two_verdicts_under_one_id(
    tmp_path: Path, judge: FakeJudge, worker: Worker
) -> None:
    lines = killed_and_restarted(tmp_path, judge, worker, "emission", guard="off")
    assert len(lines) == 2
    assert lines[0]["id"] == lines[1]["id"]
    assert lines[0]["value"] != lines[1]["value"]
    assert judge.calls == 2
