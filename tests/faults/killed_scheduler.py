"""Schedulers to be killed: a virtual clock, the real store and DBOS, parts that write a journal.

Each life is a forked process: it works until it is killed at its place, or until the clock has
reached the end and every run has ended. The next life goes on with the clock after an outage. The
journal has a line for each part of a run that begins.

With `--unguarded parts` the results of parts are not kept; with `--unguarded identity` a run that
is started again is another workflow.
"""

import argparse
import json
import os
import random
import signal
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from dbos import DBOS, SetWorkflowID
from prometheus_client import CollectorRegistry

from atdp.runtime.durable_files import write_durably
from atdp.runtime.home import Home
from atdp.stack.schedules.run_facts import Facts, PartName, RunParts
from atdp.stack.schedules.run_log import RunLog
from atdp.stack.schedules.run_order import RunOrder
from atdp.stack.schedules.run_workflow import DurableRuns, runs_database
from atdp.stack.schedules.schedule_events import RunEnded, RunRequested, RunStarted
from atdp.stack.schedules.schedule_metrics import SchedulerMetrics
from atdp.stack.schedules.schedule_state import Run, RunOutcome
from atdp.stack.schedules.schedule_store import ScheduleStore
from atdp.stack.schedules.scheduler import DataSource, Scheduler

PARTS = ("begin", "resolve", "pin", "evaluate", "gate", "record", "publish", "end", "tell")
PLACES = tuple(
    f"{what}:{when}" for what in (*PARTS, "request", "start") for when in ("before", "after")
)
"""Right before the effect of a part, and right after it, when its result is not kept yet; before
and after the append of a request; before and after a requested run is started."""


FOUND: dict[str, Facts] = {
    "resolve": {"candidate": "v2", "baseline": "v1"},
    "pin": {"dataset": "d"},
    "evaluate": {"verdict": "PASS", "reasons": ["shown"], "text": "shown", "evaluation": "e"},
    "gate": {"gates": "page"},
}


class Life:
    """One process: its place of death, and its clock."""

    def __init__(self, folder: Path, place: str, dies_at: int) -> None:
        self.folder, self.place, self.passes = folder, place, dies_at
        self.clock = folder / "clock"

    def at(self, place: str) -> None:
        """Die here, if this is the place and it was passed as often as planned."""
        if place == self.place:
            self.passes -= 1
            if self.passes < 0:
                os.kill(os.getpid(), signal.SIGKILL)

    def now(self) -> datetime:
        return datetime.fromisoformat(self.clock.read_text())

    def advance(self, by: timedelta) -> None:
        write_durably(self.clock, (self.now() + by).isoformat())

    def note(self, part: str, run: str) -> None:
        with (self.folder / "journal").open("a") as file:
            file.write(json.dumps({"run": run, "part": part}) + "\n")

    def made(self, part: str, run: str, effect: Callable[[], None] = lambda: None) -> Facts:
        self.note(part, run)
        self.at(f"{part}:before")
        effect()
        self.at(f"{part}:after")
        return {}


class JournalledParts:
    """Parts without a stack."""

    def __init__(self, life: Life) -> None:
        self.life = life

    def make(self, part: PartName, order: RunOrder, facts: Facts) -> Facts:
        return {**self.life.made(part, order.run_id), **FOUND.get(part, {})}

    def close(self, order: RunOrder) -> None:
        pass


class JournalledLog(RunLog):
    """A log of runs that writes to the journal, and can be killed."""

    def __init__(self, store: ScheduleStore, life: Life) -> None:
        super().__init__(store, life.now)
        object.__setattr__(self, "life", life)

    __slots__ = ("life",)
    life: Life

    def started(self, order: RunOrder) -> None:
        self.life.made("begin", order.run_id, lambda: self._append(order, 2, RunStarted()))

    def ended(self, order: RunOrder, outcome: RunOutcome) -> None:
        body = RunEnded(outcome=outcome)
        self.life.made("end", order.run_id, lambda: self._append(order, 3, body))


class KilledStore(ScheduleStore):
    """A store that can be killed at the append of a request."""

    life: Life | None = None

    def append(self, events: Any) -> None:
        requests = any(isinstance(event.body, RunRequested) for event in events)
        if requests and self.life:
            self.life.at("request:before")
        super().append(events)
        if requests and self.life:
            self.life.at("request:after")


class KilledStarter:
    """Starts runs, and can be killed before and after."""

    def __init__(self, runs: DurableRuns, life: Life, unguarded: str) -> None:
        self.runs, self.life, self.unguarded = runs, life, unguarded

    def start(self, order: RunOrder) -> None:
        self.life.at("start:before")
        if self.unguarded == "identity":
            with SetWorkflowID(str(uuid.uuid4())):
                DBOS.start_workflow(self.runs.execute, order.to_json())
        else:
            self.runs.start(order)
        self.life.at("start:after")

    def settle(self, order: RunOrder) -> None:
        if not self.unguarded:
            self.runs.settle(order)


def without_kept_results(
    self: Any, name: str, order: RunOrder, call: Callable[[], Facts], **_limits: Any
) -> Facts:
    """Make a part as a plain call, whose result is lost with the process."""
    return call()


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """The parts of runs and the data source that a scheduler uses in one life."""

    parts: RunParts
    data: DataSource
    each_step: Callable[[], bool] = lambda: True
    """Called after each round; False: there is still something to do."""


def live(
    life: Life, around: Surroundings, unguarded: str, until: datetime, step: timedelta
) -> None:
    """Work until the clock has reached `until` and every run has ended."""
    home = Home(life.folder)
    if unguarded == "parts":
        DurableRuns._step = without_kept_results  # type: ignore[method-assign]
    store = KilledStore(home)
    store.life = life
    runs = DurableRuns(
        runs_database(home, None), JournalledLog(store, life), around.parts, now=life.now
    )
    runs.launch()
    scheduler = Scheduler(
        store=store,
        data=around.data,
        runs=lambda: KilledStarter(runs, life, unguarded),
        metrics=SchedulerMetrics(CollectorRegistry()),
        now=life.now,
    )
    while True:
        scheduler.round()
        waiting = open_runs(scheduler)
        is_done = around.each_step() and not waiting
        if life.now() >= until and is_done and told(life.folder, scheduler):
            return
        if life.now() < until and len(waiting) < 3:
            life.advance(step)
        else:
            time.sleep(0.01)


class NoData:
    def since(self, trigger: Any, definition: Any, position: int) -> list[Any]:
        return []


def open_runs(scheduler: Scheduler) -> list[Run]:
    book = scheduler._book
    return [run for record in book.schedules.values() for run in record.open_runs()]


def told(folder: Path, scheduler: Scheduler) -> bool:
    """Return whether the journal has the notice about every run."""
    lines = [json.loads(line) for line in (folder / "journal").read_text().splitlines()]
    runs = {line["run"] for line in lines if line["part"] == "tell"}
    every = {run.id for each in scheduler._book.schedules.values() for run in each.runs.values()}
    return runs >= every


def lives(options: argparse.Namespace) -> Iterator[tuple[str, int]]:
    """Yield the place of death of each life, and how often it is passed before; the last lives."""
    if options.places:
        yield from ((place, 0) for place in options.places.split(","))
    chance = random.Random(options.seed)
    for _ in range(options.kills):
        yield chance.choice(PLACES), chance.randrange(options.passes)
    yield "", 0


def without_stack(life: Life, _unguarded: str) -> Surroundings:
    return Surroundings(parts=JournalledParts(life), data=NoData())


def main(surroundings: Callable[[Life, str], Surroundings] = without_stack) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--start", type=datetime.fromisoformat, required=True)
    parser.add_argument("--until", type=datetime.fromisoformat, required=True)
    parser.add_argument("--step-s", type=float, default=600.0)
    parser.add_argument("--outage-s", type=float, default=0.0)
    parser.add_argument("--places", default="")
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--passes", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--unguarded", choices=["", "parts", "identity", "outbox"], default="")
    options = parser.parse_args()
    step = timedelta(seconds=options.step_s)
    write_durably(options.home / "clock", options.start.isoformat())
    (options.home / "journal").touch()
    for place, passes in lives(options):
        life = Life(options.home, place, passes)
        child = os.fork()
        if child == 0:
            around = surroundings(life, options.unguarded)
            live(life, around, options.unguarded, options.until, step)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        print(json.dumps({"place": place, "code": code}), flush=True)
        if code not in (0, -signal.SIGKILL):
            return 1
        outage = timedelta(seconds=options.outage_s)
        life.advance(min(outage, max(timedelta(0), options.until - life.now())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
