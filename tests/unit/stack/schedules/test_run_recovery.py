"""Runs when one of the two databases fails, is lost or is an old copy, and after an upgrade."""

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dbos import DBOS
from dbos._dbos import _get_dbos_instance
from sqlalchemy import text
from sqlalchemy.exc import OperationalError

from atdp.replay import Verdict
from atdp.runtime import Home
from atdp.stack.schedules import run_workflow
from atdp.stack.schedules.refused_definition import accepted
from atdp.stack.schedules.run_facts import Facts, PartName
from atdp.stack.schedules.run_order import RunOrder
from atdp.stack.schedules.run_workflow import RunInterrupted
from atdp.stack.schedules.schedule_definition import RunReceiver, ScheduleDefinition
from atdp.stack.schedules.schedule_state import RunOutcome

from .test_run_workflow import NOON, Runner, wait_until

RECEIVERS = tuple(RunReceiver(webhook=f"https://example.com/{name}") for name in "ab")
RUN = "s@2026-11-22T12:00:00Z"


class Lives:
    """One home, and a process after the other on it."""

    def __init__(self, home: Home) -> None:
        self.home, self.runner = home, Runner(home)
        self.runner.desk.add(ScheduleDefinition(id="s", on="external", model="m", notify=RECEIVERS))
        self.runner.desk.trigger("s", NOON)

    @property
    def order(self) -> RunOrder:
        desk = self.runner.desk
        return RunOrder.of(desk.run("s", NOON), accepted(desk.show("s").definition))

    @property
    def outcome(self) -> RunOutcome | None:
        return self.runner.desk.run("s", NOON).outcome

    def end(self) -> None:
        self.runner.close()

    def next(self) -> Runner:
        self.end()
        self.runner = Runner(self.home)
        return self.runner

    def finish(self) -> RunOutcome:
        """Start the run as the scheduler does, and return its outcome when all are told."""
        self.runner.runs.start(self.order)
        wait_until(lambda: self.runner.runs.has_ended(RUN))
        assert self.outcome is not None
        return self.outcome

    @property
    def calls(self) -> list[str]:
        return self.runner.parts.calls


@pytest.fixture
def lives(tmp_path: Path) -> Iterator[Lives]:
    made = Lives(Home(tmp_path / "home"))
    yield made
    made.end()


def interrupt(lives: Lives, part: str) -> None:
    """Let a part end as with a process that is killed."""
    lives.runner.parts.script[part] = [RunInterrupted("killed")]
    lives.runner.runs.start(lives.order)
    wait_until(lambda: part in lives.calls)


def test_a_run_of_an_earlier_form_begins_again_after_an_upgrade(
    lives: Lives, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_workflow, "_FORM_OF_RUNS", "1")
    lives.next()
    interrupt(lives, "evaluate")
    assert lives.outcome is None
    monkeypatch.undo()
    lives.next()
    assert lives.finish().verdict is Verdict.PASS
    assert lives.calls[:4] == ["resolve", "pin", "evaluate", "publish"]
    lives.next()
    assert lives.finish().verdict is Verdict.PASS
    assert lives.calls == []


def test_receivers_that_an_earlier_form_left_waiting_are_told_after_an_upgrade(
    lives: Lives, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_workflow, "_FORM_OF_RUNS", "1")
    lives.next()
    interrupt(lives, "tell-0")
    monkeypatch.undo()
    lives.next()
    wait_until(lambda: "tell-0" in lives.calls)
    assert lives.finish().verdict is Verdict.PASS
    assert "evaluate" not in lives.calls


def fail_once(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Let the database refuse the result of one part, as a full disk does."""
    database: Any = _get_dbos_instance()._sys_db
    record = database.record_operation_result
    refused: list[str] = []

    def refuse(result: Any, *arguments: Any, **named: Any) -> Any:
        if result["function_name"] == name and not refused:
            refused.append(name)
            raise OperationalError("INSERT", {}, Exception("database or disk is full"))
        return record(result, *arguments, **named)

    monkeypatch.setattr(database, "record_operation_result", refuse)


def test_a_result_that_the_disk_does_not_take_interrupts_the_run_and_does_not_end_it(
    lives: Lives, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_once(monkeypatch, "evaluate")
    lives.runner.runs.start(lives.order)
    wait_until(lambda: lives.runner.runs.interruption is not None)
    lives.runner.runs.settle(lives.order)
    assert lives.outcome is None
    lives.next()
    assert lives.finish().verdict is Verdict.PASS
    assert lives.calls[:2] == ["evaluate", "publish"]


def test_without_the_interruption_a_full_disk_ends_the_run_with_an_error_that_is_told(
    lives: Lives, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_workflow, "RunInterrupted", RuntimeError)
    fail_once(monkeypatch, "evaluate")
    lives.runner.runs.start(lives.order)
    wait_until(lambda: lives.runner.runs.has_ended(RUN))
    lives.runner.runs.settle(lives.order)
    assert lives.outcome is not None
    assert lives.outcome.reasons == ("run_given_up",)
    wait_until(lambda: {"tell-0", "tell-1"} <= set(lives.calls))
    assert lives.runner.parts.seen["tell-1"]["verdict"] == "ERROR"


def test_when_the_database_of_runs_is_lost_a_run_that_has_ended_is_told_and_not_evaluated(
    lives: Lives,
) -> None:
    lives.finish()
    lives.end()
    (lives.home.root / "schedules" / "runs.sqlite").unlink()
    lives.runner = Runner(lives.home)
    assert lives.finish().evaluation == "e1"
    assert sorted(lives.calls) == ["publish", "tell-0", "tell-1"]


def test_when_the_store_of_schedules_is_an_old_copy_a_run_gets_the_end_that_it_had(
    lives: Lives, tmp_path: Path
) -> None:
    lives.end()
    folder, copy = lives.home.root / "schedules", tmp_path / "copy"
    shutil.copytree(folder, copy)
    lives.runner = Runner(lives.home)
    had = lives.finish()
    lives.end()
    for file in folder.glob("schedules.sqlite*"):
        file.unlink()
    for file in copy.glob("schedules.sqlite*"):
        shutil.copy(file, folder)
    lives.runner = Runner(lives.home)
    assert lives.runner.desk.run("s", NOON).stage == "requested"
    lives.runner.runs.start(lives.order)
    lives.runner.runs.settle(lives.order)
    assert lives.outcome == had
    assert lives.calls == []


def test_a_receiver_that_does_not_answer_delays_no_other(lives: Lives) -> None:
    answers = threading.Event()
    make = lives.runner.parts.make

    def slow(part: PartName, order: RunOrder, facts: Facts) -> Facts:
        if part == "tell" and facts["receiver"] == 0:
            assert answers.wait(60)
        return make(part, order, facts)

    lives.runner.parts.make = slow  # type: ignore[method-assign]
    lives.runner.runs.start(lives.order)
    wait_until(lambda: "tell-1" in lives.calls)
    assert "tell-0" not in lives.calls
    assert not lives.runner.runs.has_ended(RUN)
    answers.set()
    lives.finish()
    assert "tell-0" in lives.calls


def test_a_run_that_another_process_took_is_taken_back_without_a_new_launch(lives: Lives) -> None:
    """The other one had lost the lock and ends; nobody else would go on with the run."""
    may_end = threading.Event()
    make = lives.runner.parts.make

    def slow(part: PartName, order: RunOrder, facts: Facts) -> Facts:
        facts = make(part, order, facts)
        assert part != "evaluate" or lives.calls.count(part) > 1 or may_end.wait(60)
        return facts

    lives.runner.parts.make = slow  # type: ignore[method-assign]
    runs = lives.runner.runs
    runs.start(lives.order)
    wait_until(lambda: "evaluate" in lives.calls)
    database: Any = _get_dbos_instance()._sys_db
    statement = "UPDATE workflow_status SET executor_id = 'other', owner_xid = 'other'"
    with database.engine.begin() as connection:
        connection.execute(text(statement))
    may_end.set()
    runs.start(lives.order)
    runs.settle(lives.order)
    [left] = DBOS.list_workflows(executor_id="other")
    assert left.status == "PENDING"
    runs.take_over()
    assert lives.finish().verdict is Verdict.PASS
    calls = ["evaluate", "evaluate", "pin", "publish", "resolve", "tell-0", "tell-1"]
    assert sorted(lives.calls) == calls
