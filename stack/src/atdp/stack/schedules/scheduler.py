"""The scheduler: requests the runs that are due, and starts requested runs.

One round reads what is new in the store, requests what clock and data ask for, and starts open runs
as far as the limits allow. Everything is derived from the store, so a round that is killed anywhere
is made up for by the next one; and starting a run that was started already has no effect. One
schedule that cannot be dealt with does not keep the others from their runs.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, Protocol

from atdp.control import ControlError
from atdp.lakehouse import LakehouseError
from atdp.replay import Verdict
from atdp.runtime import PlatformError
from atdp.stack.errors import ScheduleError, StackError
from atdp.stack.schedules.run_log import RunLog
from atdp.stack.schedules.run_order import RunOrder
from atdp.stack.schedules.run_requests import DataPoint, clock_requests, data_requests
from atdp.stack.schedules.schedule_book import ScheduleBook, ScheduleRecord
from atdp.stack.schedules.schedule_definition import DataTrigger, ScheduleDefinition
from atdp.stack.schedules.schedule_events import EventBody, RunEnded, RunRequested
from atdp.stack.schedules.schedule_metrics import SchedulerMetrics
from atdp.stack.schedules.schedule_state import Run, RunOutcome
from atdp.stack.schedules.schedule_store import ScheduleStore

_MOST_RUNS: Final = 4
"""Runs of all schedules that are at work at a time; evaluations share the engines anyway."""
_DATA_EVERY: Final = timedelta(seconds=10)
"""Time between two looks at the data of a schedule."""
_ACTOR: Final = "scheduler"

_log = logging.getLogger("atdp.schedules")


class RunStarter(Protocol):
    """Takes runs to their end, each once, also after a kill."""

    def start(self, order: RunOrder) -> None:
        """Start a run; one that was started already is not started again."""
        ...

    def why_ended(self, run: str) -> str | None:
        """Return why a run was given up without an outcome; None: it was not given up."""
        ...


class DataSource(Protocol):
    """The data that request runs."""

    def since(
        self, trigger: DataTrigger, definition: ScheduleDefinition, position: int
    ) -> list[DataPoint]:
        """Return what came after `position`, oldest first; 0 is before everything."""
        ...


@dataclass(slots=True, kw_only=True)
class Scheduler:
    """The rounds over one store. `runs` opens what takes runs to their end, at the first run."""

    store: ScheduleStore
    data: DataSource
    runs: Callable[[], RunStarter]
    metrics: SchedulerMetrics
    now: Callable[[], datetime]
    _problems: dict[tuple[str, str], str] = field(default_factory=dict)
    """The last failures, by schedule and kind of work."""
    _book: ScheduleBook = field(default_factory=ScheduleBook)
    _started: set[str] = field(default_factory=set)
    _looked_at: dict[str, datetime] = field(default_factory=dict)

    def round(self) -> None:
        """Make one round.

        Raises:
            ScheduleError: the store cannot be used.
        """
        now = self.now()
        self._read()
        schedules = self._book.schedules
        for name, record in sorted(schedules.items()):
            if record.stage == "active":
                with self._problem_of(name, "clock"):
                    self._append(clock_requests(record, now), now)
                self._look_at_data(record, now)
        self._read()
        for name, record in schedules.items():
            with self._problem_of(name, "runs"):
                self._start(record)
        present = {name for name, record in schedules.items() if record.stage == "active"}
        self._problems = {key: text for key, text in self._problems.items() if key[0] in present}
        self.metrics.show(self._book, self.now())

    def problem(self) -> str | None:
        """Return what is wrong, for the health check."""
        texts = (f"{name} ({of}): {text}" for (name, of), text in self._problems.items())
        return "; ".join(texts) or None

    def _read(self) -> None:
        for event in self._book.refresh(self.store):
            if isinstance(event.body, RunRequested):
                self.metrics.requested.labels(event.body.schedule, event.body.cause).inc()
            elif isinstance(event.body, RunEnded):
                run = event.stream.removeprefix("run/")
                self._started.discard(run)
                verdict = event.body.outcome.verdict.value
                self.metrics.completed.labels(run.rpartition("@")[0], verdict).inc()

    def _append(self, bodies: list[tuple[str, EventBody]], now: datetime) -> None:
        try:
            self.store.append(self._book.next_events(bodies, at=now, actor=_ACTOR))
        except ScheduleError as error:
            if error.code != "conflict":
                raise
            # Somebody changed the schedule or requested one of the runs: the next round sees it.

    def _look_at_data(self, record: ScheduleRecord, now: datetime) -> None:
        definition = record.definition
        looked_at = self._looked_at.get(definition.id)
        if definition.on is None or definition.on == "external":
            return
        if looked_at is not None and now - looked_at < _DATA_EVERY:
            return
        self._looked_at[definition.id] = now
        with self._problem_of(definition.id, "data"):
            points = self.data.since(definition.on, definition, record.data_from or 0)
            self._append(data_requests(record, points), now)

    def _start(self, record: ScheduleRecord) -> None:
        running = 0
        for run in record.open_runs():
            if run.id in self._started or run.stage == "running":
                running += 1
                self._give_up_if_ended(run, record)
            elif running < record.definition.max_concurrent and len(self._started) < _MOST_RUNS:
                running += 1
            else:
                continue
            if run.id not in self._started:
                self._started.add(run.id)
                self.runs().start(_order(run, record))

    def _give_up_if_ended(self, run: Run, record: ScheduleRecord) -> None:
        why = self.runs().why_ended(run.id)
        if why is None:
            return
        outcome = RunOutcome(verdict=Verdict.ERROR, reasons=("run_given_up",), text=why)
        RunLog(self.store, self.now).ended(_order(run, record), outcome)

    @contextmanager
    def _problem_of(self, name: str, of: str) -> Iterator[None]:
        try:
            yield
        except (StackError, ControlError, LakehouseError, PlatformError) as error:
            self.metrics.failures.inc()
            if self._problems.get((name, of)) != str(error):
                _log.warning("a schedule cannot be dealt with: %s", error, extra={"of": name})
            self._problems[name, of] = str(error)
        else:
            self._problems.pop((name, of), None)


def _order(run: Run, record: ScheduleRecord) -> RunOrder:
    return RunOrder.of(run, record.definitions[run.version - 1])
