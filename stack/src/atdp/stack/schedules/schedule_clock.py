"""The times of a schedule's clock: cron in a time zone, without the excluded days.

Daylight saving time is handled as Debian's cron does: a job at a fixed time that falls into the
hour that is skipped runs right after it, and one in the hour that comes twice runs once; jobs at
every hour or minute follow the elapsed time. The times depend on the definition alone, not on where
the iteration begins.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from cronsim import CronSim

from atdp.stack.schedules.schedule_definition import ScheduleDefinition


def ticks(definition: ScheduleDefinition, after: datetime) -> Iterator[datetime]:
    """Yield the times after `after`, in UTC, rising; none where the definition has no `cron`."""
    if definition.cron is None:
        return
    zone = ZoneInfo(definition.timezone)
    last = after
    for local in CronSim(definition.cron, after.astimezone(zone)):
        moment = local.astimezone(UTC)
        # Two local times of the hour that is skipped are one moment; and one begins before
        # `after` where that is in the hour that comes twice.
        if moment > last and local.date() not in definition.excluded_dates:
            last = moment
            yield moment


def ticks_until(
    definition: ScheduleDefinition, after: datetime, until: datetime
) -> Iterator[datetime]:
    """Yield the times in (`after`, `until`]."""
    for moment in ticks(definition, after):
        if moment > until:
            return
        yield moment


def next_tick(definition: ScheduleDefinition, after: datetime) -> datetime | None:
    """Return the first time after `after`; None where there is none."""
    return next(ticks(definition, after), None)
