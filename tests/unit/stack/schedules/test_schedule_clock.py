"""The times of a schedule's clock, over the changes of daylight saving time."""

from datetime import UTC, date, datetime, timedelta
from itertools import islice, pairwise
from typing import Any

import pytest
from hypothesis import given, strategies as st

from atdp.stack.schedules.schedule_clock import next_tick, ticks, ticks_until
from atdp.stack.schedules.schedule_definition import ScheduleDefinition

BERLIN = "Europe/Berlin"
SPRING = datetime(2026, 3, 28, 12, tzinfo=UTC)
"""02:00 on 29 March becomes 03:00."""
AUTUMN = datetime(2026, 10, 24, 12, tzinfo=UTC)
"""03:00 on 25 October becomes 02:00."""


def clock(cron: str, zone: str = BERLIN, **fields: Any) -> ScheduleDefinition:
    return ScheduleDefinition(id="s", cron=cron, timezone=zone, model="m", **fields)


def local(definition: ScheduleDefinition, after: datetime, days: float) -> list[str]:
    found = ticks_until(definition, after, after + timedelta(days=days))
    return [f"{moment:%d %H:%M}" for moment in found]


def test_a_time_in_the_hour_that_is_skipped_runs_right_after_it() -> None:
    assert local(clock("30 2 * * *"), SPRING, 2) == ["29 01:00", "30 00:30"]


def test_two_times_in_the_hour_that_is_skipped_are_one_run() -> None:
    assert local(clock("15,45 2 * * *"), SPRING, 1) == ["29 01:00"]


def test_a_time_in_the_hour_that_comes_twice_runs_once() -> None:
    assert local(clock("30 2 * * *"), AUTUMN, 2) == ["25 00:30", "26 01:30"]


def test_every_hour_follows_the_elapsed_time() -> None:
    for start in (SPRING, AUTUMN):
        found = list(ticks_until(clock("0 * * * *"), start, start + timedelta(days=2)))
        steps = {later - earlier for earlier, later in pairwise(found)}
        assert steps == {timedelta(hours=1)}
        assert len(found) == 48


def test_excluded_days_are_days_of_the_time_zone() -> None:
    definition = clock("30 0 * * *", excluded_dates=(date(2026, 3, 2),))
    assert local(definition, datetime(2026, 2, 28, 12, tzinfo=UTC), 3) == ["28 23:30", "02 23:30"]


def test_a_definition_without_cron_has_no_times() -> None:
    assert next_tick(ScheduleDefinition(id="s", on="external", model="m"), SPRING) is None


@given(
    cron=st.sampled_from(["30 2 * * *", "15,45 1-3 * * *", "*/20 * * * *", "0 */6 * * 6,0"]),
    zone=st.sampled_from([BERLIN, "UTC", "America/New_York", "Australia/Lord_Howe"]),
    minutes=st.integers(0, 366 * 24 * 60),
    jump=st.integers(0, 40),
)
def test_the_times_do_not_depend_on_where_one_begins(
    cron: str, zone: str, minutes: int, jump: int
) -> None:
    definition = clock(cron, zone)
    start = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=minutes)
    found = list(islice(ticks(definition, start), 60))
    assert found == sorted(set(found))
    assert list(islice(ticks(definition, found[jump]), 60 - jump - 1)) == found[jump + 1 :]


@pytest.mark.parametrize(
    ("cron", "message"),
    [
        ("0 3 * *", "5 fields"),
        ("61 * * * *", "minute"),
        ("0 0 31 2 *", "day"),
        ("@daily", "5 fields"),
    ],
)
def test_a_wrong_cron_expression_is_refused(cron: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        clock(cron)
