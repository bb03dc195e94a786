"""Two scheduler processes of one store, of which the first loses the lock within a run."""

import json
import signal
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from atdp.runtime import Home
from atdp.stack.schedules.schedule_definition import RunReceiver, ScheduleDefinition
from atdp.stack.schedules.schedule_desk import ScheduleDesk
from atdp.stack.schedules.schedule_events import run_stream
from atdp.stack.schedules.schedule_store import ScheduleStore, schedules_url

from .scheduler_processes import SchedulerProcesses, wait_until

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)
PROGRAM = (str(Path(__file__).with_name("waiting_scheduler.py")),)
STANDING_BY = "another scheduler of this store works"
DEFINITION = ScheduleDefinition(
    id="s",
    on="external",
    model="m",
    record=True,
    notify=(RunReceiver(command=("true",)),),
)
PARTS = ["resolve", "pin", "evaluate", "record", "publish", "tell"]


@dataclass
class LostLock:
    """Two processes, each of its home, that write one journal in `folder`."""

    here: SchedulerProcesses
    there: SchedulerProcesses
    folder: Path

    def begin(self, desk: ScheduleDesk, waits_in: str, unguarded: str = "") -> None:
        """Let the first process be within a run, and the second one stand by."""
        environ = {"ATDP_TEST_FOLDER": str(self.folder)}
        self.first = self.here.start(
            "first", PROGRAM, ATDP_TEST_WAITS_IN=waits_in, ATDP_TEST_UNGUARDED=unguarded, **environ
        )
        wait_until(lambda: self.here.state("first") == "ok")
        self.second = self.there.start("second", PROGRAM, **environ)
        wait_until(lambda: self.there.state("second") == STANDING_BY)
        desk.add(DEFINITION)
        desk.trigger("s", NOON)
        wait_until(lambda: self.parts(self.first)[-1:] == [waits_in])

    def freeze(self) -> None:
        """Stop the first process. A lock on a file of SQLite would stop the second one, too."""
        self.first.send_signal(signal.SIGSTOP)
        while schedules_url() is None and is_locked(self.here.home):
            self.first.send_signal(signal.SIGCONT)
            self.first.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Let the first process go on, and its part end."""
        (self.folder / "go").touch()
        self.first.send_signal(signal.SIGCONT)

    def parts(self, process: subprocess.Popen[bytes], what: str = "begins") -> list[str]:
        """Return the parts of the first run that began in a process, or ended."""
        journal = self.folder / "journal"
        lines = journal.read_text().splitlines() if journal.exists() else []
        named = {"by": process.pid, "run": f"s@{NOON:%Y-%m-%dT%H:%M:%SZ}", "what": what}
        entries = [json.loads(line) for line in lines]
        return [each["part"] for each in entries if each.items() >= named.items()]

    def check_taken_over(self, desk: ScheduleDesk, waits_in: str) -> None:
        """Check that the second one has made the rest of the run, with one set of results."""
        at = PARTS.index(waits_in)
        wait_until(lambda: self.parts(self.second, "ends")[-1:] == ["tell"])
        assert self.parts(self.second) == PARTS[at:]
        outcome = desk.run("s", NOON).outcome
        assert outcome is not None
        assert (outcome.verdict.value, outcome.evaluation) == ("PASS", "e")

    def check_one_set_of_results(self) -> None:
        """Check the events of the run, and that the first process began no further part."""
        with closing(ScheduleStore(self.here.home, schedules_url())) as store:
            events = store.stream(run_stream("s", NOON))
        assert [event.number for event in events] == [1, 2, 3]
        assert self.parts(self.first)[-1] not in self.parts(self.first)[:-1]
        both = self.parts(self.first) + self.parts(self.second)
        repeated = self.parts(self.first)[-1]
        assert sorted(both) == sorted([*PARTS, repeated])

    def check_works(self, desk: ScheduleDesk, *processes: tuple[SchedulerProcesses, str]) -> None:
        """Check that a further run is completed, and read by these processes."""
        later = NOON + timedelta(hours=1)
        desk.trigger("s", later)
        wait_until(lambda: desk.run("s", later).outcome is not None)
        line = 'atdp_schedule_runs_completed_total{schedule="s",verdict="PASS"} 2.0'
        for of, name in processes:
            wait_until(lambda of=of, name=name: line in of.metrics(name))  # type: ignore[misc]


def is_locked(home: Home) -> bool:
    """Return whether a process holds a lock on a database of the home."""
    for name in ("schedules.sqlite", "runs.sqlite"):
        file = home.root / "schedules" / name
        with closing(sqlite3.connect(file, timeout=0, isolation_level=None)) as connection:
            try:
                connection.execute("BEGIN EXCLUSIVE")
            except sqlite3.OperationalError:
                return True
            with suppress(sqlite3.OperationalError):
                connection.execute("ROLLBACK")
    return False


LoseLock = Callable[[], None]


def lose_within_a_run(case: LostLock, lose: LoseLock, waits_in: str, *, freezes: bool) -> None:
    """Let the first process lose the lock within a part; the second one completes the run once."""
    with ScheduleDesk(case.here.home) as desk:
        case.begin(desk, waits_in)
        if freezes:
            case.freeze()
        lose()
        case.check_taken_over(desk, waits_in)
        case.go_on()
        assert case.first.wait(60) == 1
        case.check_one_set_of_results()
        case.check_works(desk, (case.there, "second"))


def lose_without_asking(case: LostLock, lose: LoseLock, waits_in: str) -> None:
    """Let the first process lose the lock, for which it does not ask: both go on working."""
    with ScheduleDesk(case.here.home) as desk:
        case.begin(desk, waits_in, unguarded="lock")
        case.freeze()
        lose()
        case.check_taken_over(desk, waits_in)
        case.go_on()
        case.check_works(desk, (case.here, "first"), (case.there, "second"))
        assert case.first.poll() is None
        case.check_one_set_of_results()
