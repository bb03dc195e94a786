"""The published state of the running stack."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from atdp.runtime.home import Home
from atdp.stack.errors import AlreadyRunning, HomeUnusable
from atdp.stack.stack_state import ServiceEntry, StackEntry, StackState


def entry(name: str = "gateway", pid: int | None = 1) -> ServiceEntry:
    return ServiceEntry(
        name=name,
        phase="ready",
        since=1.0,
        pid=pid,
        created=2.0,
        port=3,
        restarts=0,
        last_exit_code=None,
        reason="",
        log="x",
    )


def test_what_was_published_is_read_back(tmp_path: Path) -> None:
    stack = StackEntry(pid=5, created=6.0, up=True, services=(entry(),))
    StackState(Home(tmp_path)).publish(stack)
    assert StackState(Home(tmp_path)).read() == stack


def test_only_one_supervisor_can_hold_a_home(tmp_path: Path) -> None:
    with StackState(Home(tmp_path)).acquire():
        with pytest.raises(AlreadyRunning, match="atdp down"):
            StackState(Home(tmp_path)).acquire()
        assert StackState(Home(tmp_path)).supervisor_pid() == os.getpid()
    with StackState(Home(tmp_path)).acquire():
        pass


def test_a_stale_lock_file_is_not_a_running_stack(tmp_path: Path) -> None:
    StackState(Home(tmp_path)).acquire().close()
    assert (tmp_path / "run" / "supervisor.lock").exists()
    assert StackState(Home(tmp_path)).supervisor_pid() is None


@contextmanager
def asked_all_the_time(home: Path) -> Iterator[None]:
    """Let another process ask without a pause whether a stack runs, as `atdp status` does."""
    program = (
        "import pathlib, sys\n"
        "from atdp.stack.stack_state import StackState\n"
        "from atdp.runtime.home import Home\n"
        "state = StackState(Home(pathlib.Path(sys.argv[1])))\n"
        "print('asking', flush=True)\n"
        "while True: state.supervisor_pid()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(home)], stdout=subprocess.PIPE
    ) as asking:
        assert asking.stdout is not None
        asking.stdout.readline()
        try:
            yield
        finally:
            asking.kill()


def start_often(home: Path, *, patience_s: float) -> None:
    for _ in range(20_000 if patience_s == 0 else 300):
        StackState(Home(home)).acquire(patience_s).close()


def test_who_asks_whether_a_stack_runs_does_not_keep_one_from_starting(tmp_path: Path) -> None:
    StackState(Home(tmp_path)).acquire().close()
    with asked_all_the_time(tmp_path):
        start_often(tmp_path, patience_s=1)


def test_without_patience_a_reader_is_taken_for_a_supervisor(tmp_path: Path) -> None:
    StackState(Home(tmp_path)).acquire().close()
    with asked_all_the_time(tmp_path), pytest.raises(AlreadyRunning):
        start_often(tmp_path, patience_s=0)


def test_nothing_or_nonsense_in_the_file_reads_as_nothing(tmp_path: Path) -> None:
    state = StackState(Home(tmp_path))
    assert state.read() is None
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "stack.json").write_text('{"pid": 1}')
    assert state.read() is None


def test_processes_are_listed_last_started_first_and_only_while_they_run(tmp_path: Path) -> None:
    stack = StackEntry(
        pid=5,
        created=6.0,
        up=True,
        services=(entry("kafka", 1), entry("gateway", None), entry("lake", 3)),
    )
    assert [process.pid for process in stack.processes()] == [3, 1]


def test_a_home_below_a_file_is_an_error_with_advice(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HomeUnusable, match="ATDP_HOME"):
        StackState(Home(tmp_path / "file" / "home")).acquire()
