"""`atdp up --detach` while another supervisor is there; the test's own process plays that one."""

import os
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from atdp.runtime.home import Home
from atdp.stack.errors import HomeUnusable
from atdp.stack.ledger import ServiceEntry, StackEntry
from atdp.stack.local import Stack
from atdp.stack.restarts import Phase


class Detaching:
    """`Stack.detach` in a thread, and what it says."""

    def __init__(self, home: Path) -> None:
        self.stack = Stack(home=Home(home), environ=dict(os.environ))
        self.said: list[str] = []
        self.waits = threading.Event()
        self.error: HomeUnusable | None = None
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        try:
            self.stack.detach(self._hear)
        except HomeUnusable as error:
            self.error = error

    def _hear(self, line: str) -> None:
        self.said.append(line)
        if "waiting for it" in line:
            self.waits.set()


def published(*, up: bool, phase: Phase = "ready") -> StackEntry:
    gateway = ServiceEntry(
        name="gateway",
        phase=phase,
        since=1.0,
        pid=None,
        created=0.0,
        port=3,
        restarts=0,
        last_exit_code=None,
        reason="",
        log="x",
    )
    return StackEntry(pid=os.getpid(), created=1.0, up=up, services=(gateway,))


def test_a_stack_that_is_up_is_left_alone(tmp_path: Path) -> None:
    detaching = Detaching(tmp_path)
    with detaching.stack.ledger.acquire():
        detaching.stack.ledger.publish(published(up=True))
        detaching.stack.detach(detaching._hear)
    assert detaching.said == [f"already running (supervisor {os.getpid()})"]


def test_a_stack_that_somebody_else_is_starting_is_waited_for(tmp_path: Path) -> None:
    detaching = Detaching(tmp_path)
    ledger = detaching.stack.ledger
    ledger.publish(replace(published(up=True), pid=1))  # of an earlier supervisor
    with ledger.acquire():
        detaching.thread.start()
        assert detaching.waits.wait(30)
        ledger.publish(published(up=False, phase="starting"))
        assert detaching.thread.is_alive()
        ledger.publish(published(up=True))
        detaching.thread.join(30)
        assert not detaching.thread.is_alive()
    assert detaching.said[-1] == f"already running (supervisor {os.getpid()})"


@pytest.mark.parametrize("found", [published(up=False), published(up=True, phase="stopping")])
def test_when_the_other_one_ends_the_stack_is_started_here(
    tmp_path: Path, found: StackEntry
) -> None:
    detaching = Detaching(tmp_path)
    detaching.stack.home.logs.write_text("in the way, so that the start ends at once")
    with detaching.stack.ledger.acquire():
        detaching.stack.ledger.publish(found)
        detaching.thread.start()
        assert detaching.waits.wait(30)
    detaching.thread.join(30)
    assert "set ATDP_HOME" in str(detaching.error)
