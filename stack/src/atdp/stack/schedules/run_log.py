"""The start and the end of runs in the store of schedules: each event once, whoever writes it.

The stream of a run has three events with fixed numbers: requested, started, ended. So a writer that
repeats one after a kill, or is a second one, finds it there, and the first outcome stays.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from atdp.stack.errors import ScheduleError
from atdp.stack.schedules.run_order import RunOrder
from atdp.stack.schedules.schedule_events import (
    RunEnded,
    RunStarted,
    ScheduleEvent,
    run_stream,
)
from atdp.stack.schedules.schedule_state import RunOutcome
from atdp.stack.schedules.schedule_store import ScheduleStore

_STARTED: Final = 2
_ENDED: Final = 3


@dataclass(frozen=True, slots=True)
class RunLog:
    """Writes the progress of runs. Threads may share it."""

    store: ScheduleStore
    now: Callable[[], datetime]

    def outcome(self, order: RunOrder) -> RunOutcome | None:
        """Return the outcome of a run; None: it has not ended."""
        stream = run_stream(order.definition.id, order.logical_time)
        bodies = [event.body for event in self.store.stream(stream)]
        return next((body.outcome for body in bodies if isinstance(body, RunEnded)), None)

    def started(self, order: RunOrder) -> None:
        """Write that the parts of a run begin."""
        self._append(order, _STARTED, RunStarted())

    def ended(self, order: RunOrder, outcome: RunOutcome) -> None:
        """Write the outcome of a run, unless it has one."""
        self.started(order)  # a run that was given up may not have begun
        self._append(order, _ENDED, RunEnded(outcome=outcome))

    def _append(self, order: RunOrder, number: int, body: RunStarted | RunEnded) -> None:
        event = ScheduleEvent(
            stream=run_stream(order.definition.id, order.logical_time),
            number=number,
            at=self.now(),
            actor="scheduler",
            body=body,
        )
        try:
            self.store.append([event])
        except ScheduleError as error:
            if error.code != "conflict":
                raise
