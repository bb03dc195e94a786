"""The scheduler process: it waits for work, makes runs, and another one takes over when it dies."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest

from atdp.replay import Verdict
from atdp.runtime import Home
from atdp.stack.schedules.schedule_definition import RunReceiver, ScheduleDefinition
from atdp.stack.schedules.schedule_desk import ScheduleDesk

pytestmark = pytest.mark.faults

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)
DEADLINE_S = 120.0


class Processes:
    """Scheduler processes of one home."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.started: list[subprocess.Popen[bytes]] = []

    def start(self, name: str) -> subprocess.Popen[bytes]:
        module = "atdp.stack.schedules.scheduler_process"
        options = ["--home", str(self.home.root), "--name", name]
        with (self.home.root / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", module, *options], stdout=log, stderr=log
            )
        self.started.append(process)
        return process

    def state(self, name: str) -> str | None:
        """Return `ok`, or why the process is not ready; None while it does not answer."""
        answer = self.get(name, "/readyz")
        if answer is None:
            return None
        return "ok" if answer.status_code == 200 else str(answer.json()["failing"]["state"])

    def metrics(self, name: str) -> str:
        answer = self.get(name, "/metrics")
        return "" if answer is None else answer.text

    def get(self, name: str, path: str) -> httpx.Response | None:
        try:
            url = json.loads((self.home.run / f"{name}.json").read_text())["url"]
            return httpx.get(url + path, trust_env=False, timeout=10)
        except (OSError, httpx.HTTPError):
            return None


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    made = Processes(Home(tmp_path))
    yield made
    for process in made.started:
        process.kill()
        process.wait(60)


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_one_process_works_and_another_one_goes_on_when_it_is_killed(
    processes: Processes, tmp_path: Path
) -> None:
    told = tmp_path / "told"
    home = processes.home
    definition = ScheduleDefinition(
        id="outside",
        on="external",
        model="orderdesk",
        notify=(RunReceiver(command=("sh", "-c", f"echo $ATDP_RUN $ATDP_VERDICT >> {told}")),),
    )
    first = processes.start("first")
    wait_until(lambda: processes.state("first") == "ok")
    processes.start("second")
    wait_until(lambda: processes.state("second") == "another scheduler of this store works")
    with ScheduleDesk(home) as desk:
        desk.add(definition)
        desk.trigger("outside", NOON)
        wait_until(lambda: desk.run("outside", NOON).outcome is not None)
        first.kill()
        first.wait(60)
        wait_until(lambda: processes.state("second") == "ok")
        later = NOON + timedelta(hours=1)
        desk.trigger("outside", later)
        wait_until(lambda: desk.run("outside", later).outcome is not None)
        outcome = desk.run("outside", later).outcome
    assert outcome is not None
    assert (outcome.verdict, outcome.reasons) == (Verdict.INCONCLUSIVE, ("nothing_to_evaluate",))
    lines = {f"outside@2026-11-22T{hour}:00:00Z INCONCLUSIVE" for hour in (12, 13)}
    wait_until(lambda: told.exists() and set(told.read_text().splitlines()) == lines)
    completed = 'atdp_schedule_runs_completed_total{schedule="outside",verdict="INCONCLUSIVE"} 2.0'
    wait_until(lambda: completed in processes.metrics("second"))
    processes.started[1].terminate()
    assert processes.started[1].wait(60) == 0
