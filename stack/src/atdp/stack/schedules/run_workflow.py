"""Runs as durable workflows of DBOS: a run that was killed goes on, and no finished part again.

The id of a workflow is that of its run, so a run is started once, however often it is asked for.
DBOS writes the result of each part to its database (SQLite in the home, or PostgreSQL) before the
next part begins. Parts run at least once; `run_parts` makes a repetition harmless. The end of a run
is an event of the store of schedules, which exists once. Each receiver is told by a workflow of its
own, which begins after the end.

A workflow is in the hands of one process, and only this one writes results. The scheduler at work
takes over every workflow that another process has in hand, with the input that it began with: that
process was killed, or has lost the lock and may still write for a moment. What it takes then, after
the launch of the next one, is taken over in the next round.

The database of DBOS and the store of schedules are two, and one may be lost, or be restored from an
older copy. A run that has its end in the store is not evaluated again, and its receivers are told.
A run that ended in DBOS alone gets the same end in the store.

Importing this module imports DBOS, which takes a second; the scheduler process does so when there
is a first run.
"""

import logging
import sys
import time
import uuid
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Final

from dbos import (
    DBOS,
    DBOSConfig,
    DBOSConfiguredInstance,
    DBOSPortableJSONSerializer,
    SetWorkflowID,
)
from sqlalchemy.exc import SQLAlchemyError

from atdp.runtime import Home, utc_now
from atdp.stack.errors import ScheduleError
from atdp.stack.schedules.run_attempts import Attempts
from atdp.stack.schedules.run_facts import (
    Facts,
    PartName,
    RunParts,
    facts_of,
    failure,
    outcome_of,
)
from atdp.stack.schedules.run_log import RunLog
from atdp.stack.schedules.run_order import RunOrder

_NAME: Final = "atdp-schedules"
_FORM_OF_RUNS: Final = "2"
"""Version of the order of parts. DBOS goes on with the workflows of its own version only, so this
is not the version of the program: raise it when parts are added, removed or put in another order,
and runs that have not ended then begin again."""
_ATTEMPTS_TO_TELL: Final = 8
_TO_THE_VERDICT: Final[tuple[PartName, ...]] = ("resolve", "pin", "evaluate")
_OPEN: Final = ["PENDING", "ENQUEUED", "DELAYED"]
_FAILED: Final = ("ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED")


_log = logging.getLogger("atdp.schedules")


class RunInterrupted(BaseException):
    """The database of runs does not take a result. DBOS does not see this as the end of the run."""


@DBOS.dbos_class()
class DurableRuns(DBOSConfiguredInstance):
    """Starts runs and takes them to their end. One instance per process."""

    def __init__(
        self,
        database_url: str,
        log: RunLog,
        parts: RunParts,
        *,
        now: Callable[[], datetime] = utc_now,
        pause: Callable[[float], object] = time.sleep,
    ) -> None:
        self._log, self._parts, self._now, self._pause = log, parts, now, pause
        self._interruption: str | None = None
        # DBOS writes to the terminal where its logger has no handler; ours goes to the service's.
        logging.getLogger("dbos").addHandler(logging.NullHandler())
        DBOS(config=_config(database_url))
        super().__init__(config_name="runs")

    def launch(self) -> None:
        """Go on with the runs of the processes before this one, and take new ones.

        Runs of another form, which an earlier version of the program has started, begin again.
        """
        DBOS.launch()
        self.take_over()
        for left in DBOS.list_workflows(status=_OPEN, load_output=False):
            if left.app_version != _FORM_OF_RUNS and left.input is not None:
                try:
                    self.start(RunOrder.from_json(left.input["args"][0]))
                except ScheduleError as error:  # the scheduler ends the run
                    _log.warning("a run is not begun again: %s", error)
                DBOS.cancel_workflow(left.workflow_id)

    def take_over(self) -> None:
        """Take the runs that other processes have in hand; only for the one that has the lock."""
        at_work = DBOS.list_workflows(
            status="PENDING", app_version=_FORM_OF_RUNS, load_input=False, load_output=False
        )
        others = {each.executor_id or "" for each in at_work} - {DBOS.executor_id}
        if others:
            DBOS._recover_pending_workflows(sorted(others))

    def close(self) -> None:
        """Release the connections; runs in hand go on at the next launch."""
        DBOS.destroy()

    @property
    def interruption(self) -> str | None:
        """The reason why a run stands still until the next launch; None: none does."""
        return self._interruption

    def start(self, order: RunOrder) -> None:
        """Start a run; one that was started already is not started again."""
        with SetWorkflowID(_workflow_id(order.run_id)):
            DBOS.start_workflow(self.execute, order.to_json())

    def has_ended(self, run: str) -> bool:
        """Return whether a run is complete or was given up, and no receiver is still to be told."""
        of_run = DBOS.list_workflows(workflow_id_prefix=_workflow_id(run), load_input=False)
        return bool(of_run) and not any(each.status in _OPEN for each in of_run)

    def settle(self, order: RunOrder) -> None:
        """End a run in the store that has ended in DBOS; one that goes on is left alone."""
        found = DBOS.get_workflow_status(_workflow_id(order.run_id))
        has_succeeded = found is not None and found.status == "SUCCESS"
        if found is None or not (has_succeeded or found.status in _FAILED):
            return
        if self._log.outcome(order) is not None:  # the caller has not read it yet
            return
        if has_succeeded:
            self._log.ended(order, outcome_of(found.output or {}))
            return
        given_up = failure("run_given_up", f"The run was given up ({found.status}).")
        self._tell_receivers(order, given_up)  # before the end, which is written once
        self._log.ended(order, outcome_of(given_up))

    @DBOS.workflow()
    def execute(self, fields: Facts) -> Facts:
        """Take a run from its start to its end, and tell its receivers; returns the facts."""
        order = RunOrder.from_json(fields)
        facts: Facts = {}
        self._write("begin", order, partial(self._log.started, order))
        for part in _TO_THE_VERDICT:
            if "verdict" not in facts:
                facts |= self._make(part, order, facts)
        if "evaluation" in facts:
            if order.definition.gates is not None:
                facts |= self._make("gate", order, facts)
            if order.definition.record:
                facts |= self._add("record", order, facts, failed="not_recorded")
            facts |= self._add("publish", order, facts, failed="not_published")
        self._parts.close(order)
        self._write("end", order, partial(self._log.ended, order, outcome_of(facts)))
        self._tell_receivers(order, facts)
        return facts

    @DBOS.workflow()
    def tell(self, fields: Facts, facts: Facts) -> Facts:
        """Tell one receiver of a run, whose index is the fact `receiver`."""
        order = RunOrder.from_json(fields)
        call = partial(self._parts.make, "tell", order, facts)
        return self._step("tell", order, call, most=_ATTEMPTS_TO_TELL)

    def _tell_receivers(self, order: RunOrder, facts: Facts) -> None:
        """Begin to tell all receivers at the same time, so that a slow one delays no other."""
        for index, receiver in enumerate(order.definition.notify):
            if facts["verdict"] in receiver.verdicts:
                with SetWorkflowID(f"{_workflow_id(order.run_id)}/tell-{index}"):
                    DBOS.start_workflow(self.tell, order.to_json(), {**facts, "receiver": index})

    def _make(self, part: PartName, order: RunOrder, facts: Facts) -> Facts:
        """Make a part that leads to the verdict, before the deadline of the run."""

        def call() -> Facts:
            ended = self._log.outcome(order) if part == "resolve" else None
            if ended is not None:
                return facts_of(ended)
            return self._parts.make(part, order, dict(facts))

        most, deadline = order.definition.attempts, order.deadline
        return self._step(part, order, call, most=most, deadline=deadline)

    def _add(self, part: PartName, order: RunOrder, facts: Facts, *, failed: str) -> Facts:
        """Make a part after the verdict; where it fails, `failed` is a further reason."""
        call = partial(self._parts.make, part, order, dict(facts))
        result = self._step(part, order, call, most=order.definition.attempts)
        if "verdict" not in result:
            return result
        return {
            "reasons": [*facts["reasons"], failed],
            "text": f"{facts['text']} ({failed}: {result['text']})",
        }

    def _write(self, name: str, order: RunOrder, write: Callable[[], None]) -> None:
        """Write to the store of schedules, repeated until it is done."""

        def call() -> Facts:
            write()
            return {}

        self._step(name, order, call, most=sys.maxsize)

    def _step(
        self,
        name: str,
        order: RunOrder,
        call: Callable[[], Facts],
        *,
        most: int,
        deadline: datetime | None = None,
    ) -> Facts:
        attempts = Attempts(most=most, deadline=deadline, now=self._now, pause=self._pause)
        try:
            return DBOS.run_step({"name": name}, attempts.make, order.run_id, name, call)
        except SQLAlchemyError as error:
            # DBOS would end the run as failed, after parts that had an effect.
            self._interruption = f"the database of runs cannot be written: {error}"
            raise RunInterrupted from error


def runs_database(home: Home, url: str | None) -> str:
    """Return the URL of the database of DBOS: that of the schedules, or a file of the home."""
    return url or f"sqlite:///{home.root / 'schedules' / 'runs.sqlite'}"


def _workflow_id(run: str) -> str:
    return f"{_NAME}/{_FORM_OF_RUNS}/{run}"


def _config(database_url: str) -> DBOSConfig:
    return DBOSConfig(
        name=_NAME,
        system_database_url=database_url,
        application_version=_FORM_OF_RUNS,
        executor_id=str(uuid.uuid4()),  # of this process: see `take_over`
        serializer=DBOSPortableJSONSerializer(),
        log_level="WARNING",
        enable_otlp=False,
    )
