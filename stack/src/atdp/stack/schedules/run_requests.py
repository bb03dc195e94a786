"""The runs that clock and data request of a schedule, as events: decisions without any effect.

All events of a decision are appended together. So the times that are dealt with and the runs that
they request are on the disk together, and a scheduler that is killed in between repeats nothing and
leaves nothing out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import Final

from atdp.stack.schedules.schedule_book import ScheduleRecord
from atdp.stack.schedules.schedule_clock import ticks_until
from atdp.stack.schedules.schedule_events import (
    DataObserved,
    EventBody,
    RunRequested,
    TicksSkipped,
    run_stream,
    schedule_stream,
)
from atdp.stack.schedules.schedule_state import RunCause

_ON_TIME: Final = timedelta(seconds=60)
"""A time of the clock that is reached this late is not missed."""
_MOST_AT_ONCE: Final = 1000
"""Times of the clock that one round deals with; further ones follow in the next round. After a year
without power, a schedule of every minute has half a million, which take minutes to be named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataPoint:
    """Something new in the data; `position` is where it lies among the trigger's data."""

    position: int
    at: datetime
    candidate: str | None = None
    """The version that was registered, for `new_candidate`."""


def clock_requests(record: ScheduleRecord, now: datetime) -> list[tuple[str, EventBody]]:
    """Return the events of the times that the clock has reached by `now`.

    `all` requests a run for each; `latest` for the last of them, once a run may be at work; `none`
    only where the last is on time. Of very many times, the first ones are dealt with, and the
    others by the next call.
    """
    definition = record.definition
    if definition.catch_up != "all" and len(record.open_times) >= definition.max_concurrent:
        return []
    reached = ticks_until(definition, record.clock_from, now)
    due = list(islice(reached, _MOST_AT_ONCE))
    if not due:
        return []
    wanted: list[datetime] = []
    skipped: list[datetime] = []
    if definition.catch_up == "all":
        wanted = due
    elif next(reached, None) is not None:  # the last of them is a later one
        skipped = due
    elif definition.catch_up == "latest" or now - due[-1] <= _ON_TIME:
        wanted, skipped = due[-1:], due[:-1]
    else:
        skipped = due
    events: list[tuple[str, EventBody]] = []
    stream = schedule_stream(definition.id)
    if skipped:
        body = TicksSkipped(first=skipped[0], last=skipped[-1], count=len(skipped))
        events.append((stream, body))
    for moment in wanted:
        if moment in record.runs:  # somebody has requested it already
            events.append((stream, TicksSkipped(first=moment, last=moment, count=1)))
        else:
            events.append(_request(record, moment, "clock"))
    return events


def data_requests(
    record: ScheduleRecord, points: Sequence[DataPoint]
) -> list[tuple[str, EventBody]]:
    """Return the events of new data; `points` are those after the record's position.

    The first time, the data that existed when the schedule was defined are the start and request
    nothing; of judged trajectories, those that exist at the first look, since they are a count.
    While as many runs are open as may be at work, new data wait, except new candidates: each of
    them gets its run. Data that became fewer, by an erasure, are a new start.
    """
    definition, stream = record.definition, schedule_stream(record.definition.id)
    if record.data_from is None:
        counts = definition.on == "judged_trajectories"
        known = [point for point in points if counts or point.at <= record.data_since]
        return [(stream, DataObserved(position=known[-1].position if known else 0))]
    if not points:
        return []
    last = points[-1].position
    if last < record.data_from:
        return [(stream, DataObserved(position=last))]
    each = definition.on == "new_candidate"
    if not each and len(record.open_times) >= definition.max_concurrent:
        return []
    if definition.on == "judged_trajectories" and last < record.data_from + definition.count:
        return []
    events: list[tuple[str, EventBody]] = []
    taken = set(record.runs)
    for point in points if each else points[-1:]:
        moment = point.at
        while moment in taken:  # two candidates at one instant are two runs
            moment += timedelta(microseconds=1)
        taken.add(moment)
        events.append(_request(record, moment, "data", point))
    return events


def _request(
    record: ScheduleRecord, moment: datetime, cause: RunCause, point: DataPoint | None = None
) -> tuple[str, EventBody]:
    definition = record.definition
    body = RunRequested(
        schedule=definition.id,
        logical_time=moment,
        version=record.version,
        cause=cause,
        position=None if point is None else point.position,
        candidate=None if point is None else point.candidate,
    )
    return run_stream(definition.id, moment), body
