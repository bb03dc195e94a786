"""The desk of schedules: changes, requests that exist once, and every refusal."""

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from atdp.runtime import Home
from atdp.stack.errors import ScheduleError
from atdp.stack.schedules.schedule_definition import ScheduleDefinition
from atdp.stack.schedules.schedule_desk import ScheduleDesk

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
THREE = datetime(2026, 11, 22, 3, tzinfo=UTC)


def nightly(**fields: Any) -> ScheduleDefinition:
    return ScheduleDefinition(**{"id": "nightly", "cron": "0 3 * * *", "model": "m", **fields})


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[ScheduleDesk]:
    with ScheduleDesk(Home(tmp_path), actor="key:k1", now=lambda: NOW) as opened:
        yield opened


def refused(error: pytest.ExceptionInfo[ScheduleError]) -> str:
    return error.value.code


def test_a_schedule_is_added_paused_resumed_and_removed(desk: ScheduleDesk) -> None:
    status = desk.add(nightly())
    assert (status.stage, status.version, status.actor) == ("active", 1, "key:k1")
    assert status.next_at == THREE + timedelta(days=1)
    assert desk.pause("nightly", reason="holidays").next_at is None
    assert desk.resume("nightly").stage == "active"
    desk.remove("nightly")
    desk.remove("nightly")
    assert desk.list() == ()
    assert desk.show("nightly").stage == "removed"


def test_refusals_name_what_is_wrong(desk: ScheduleDesk) -> None:
    with pytest.raises(ScheduleError, match="none yet") as unknown:
        desk.show("nightly")
    desk.add(nightly())
    desk.add(nightly(id="outside", cron=None, on="external"))
    with pytest.raises(ScheduleError, match="apply") as exists:
        desk.add(nightly())
    with pytest.raises(ScheduleError, match="nightly, outside"):
        desk.pause("nightlyy")
    with pytest.raises(ScheduleError, match="time zone") as naive:
        desk.trigger("nightly", datetime(2026, 1, 1))  # noqa: DTZ001
    with pytest.raises(ScheduleError, match="in the future"):
        desk.trigger("nightly", NOW + timedelta(days=1))
    far = datetime.max.replace(tzinfo=timezone(timedelta(hours=-1)))
    with pytest.raises(ScheduleError, match="in the future"):
        desk.trigger("nightly", far)
    long_ago = datetime.min.replace(tzinfo=timezone(timedelta(hours=1)))
    with pytest.raises(ScheduleError, match="before 1970"):
        desk.trigger("nightly", long_ago)
    with pytest.raises(ScheduleError, match="before its beginning"):
        desk.backfill("nightly", NOW, THREE)
    with pytest.raises(ScheduleError, match="no cron") as no_clock:
        desk.backfill("outside", THREE, NOW)
    with pytest.raises(ScheduleError, match="trigger") as no_run:
        desk.run("nightly", THREE)
    desk.remove("nightly")
    with pytest.raises(ScheduleError, match="was removed") as removed:
        desk.trigger("nightly")
    assert [refused(e) for e in (unknown, exists, naive, no_clock, no_run, removed)] == [
        "unknown_schedule",
        "schedule_exists",
        "bad_time",
        "no_clock",
        "unknown_run",
        "schedule_removed",
    ]


def test_a_run_is_the_same_for_equal_times_and_keys(desk: ScheduleDesk) -> None:
    desk.add(nightly(cron=None, on="external"))
    first = desk.trigger("nightly", THREE, key="nightly+3")
    in_tokyo = THREE.astimezone(timezone(timedelta(hours=9)))
    assert desk.trigger("nightly", in_tokyo) == first
    assert desk.trigger("nightly", key="nightly+3") == first
    assert first.id == "nightly@2026-11-22T03:00:00Z"
    assert (first.cause, first.stage, first.key) == ("external", "requested", "nightly+3")
    with pytest.raises(ScheduleError) as reused:
        desk.trigger("nightly", NOW, key="nightly+3")
    assert refused(reused) == "key_reused"
    assert desk.runs("nightly") == (first,)


def test_a_key_without_a_time_names_one_run_however_late_it_is_repeated(tmp_path: Path) -> None:
    times = iter(NOW + timedelta(minutes=minute) for minute in range(100))
    with ScheduleDesk(Home(tmp_path), now=lambda: next(times)) as desk:
        desk.add(nightly())
        assert desk.trigger("nightly", key="k") == desk.trigger("nightly", key="k")
        assert desk.trigger("nightly", key="other") != desk.trigger("nightly", key="k")


def test_writers_that_race_request_one_run(tmp_path: Path) -> None:
    with ScheduleDesk(Home(tmp_path), now=lambda: NOW) as desk:
        desk.add(nightly())
    ready = threading.Barrier(8)
    ids: list[str] = []

    def request() -> None:
        with ScheduleDesk(Home(tmp_path), now=lambda: NOW) as own:
            ready.wait()
            times = [THREE + timedelta(hours=hour) for hour in range(5)]
            ids.extend([own.trigger("nightly", time).id for time in times])

    writers = [threading.Thread(target=request) for _ in range(8)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert len(ids) == 40
    with ScheduleDesk(Home(tmp_path)) as desk:
        assert len(desk.runs("nightly")) == 5


def test_a_backfill_requests_each_time_of_the_clock_once(desk: ScheduleDesk) -> None:
    desk.add(nightly())
    since = THREE - timedelta(days=4)
    first = desk.backfill("nightly", since, THREE)
    assert [run.logical_time for run in first] == [since + timedelta(days=day) for day in range(4)]
    again = desk.backfill("nightly", since, NOW)
    assert again[:4] == first
    assert len(again) == 5
    desk.add(nightly(id="often", cron="* * * * *"))
    with pytest.raises(ScheduleError) as many:
        desk.backfill("often", NOW - timedelta(days=365), NOW)
    assert refused(many) == "too_many_runs"


def test_apply_brings_the_schedules_to_a_file_and_keeps_versions(desk: ScheduleDesk) -> None:
    desk.add(nightly(id="old"))
    desk.add(nightly())
    run = desk.trigger("nightly", THREE)
    applied = desk.apply([nightly(max_concurrent=2), nightly(id="new")], prune=True)
    assert {each.id: each.change for each in applied} == {
        "nightly": "changed",
        "new": "added",
        "old": "removed",
    }
    again = desk.apply([nightly(max_concurrent=2), nightly(id="new")])
    assert {each.change for each in again} == {"unchanged"}
    assert desk.show("nightly").version == 2
    assert desk.run("nightly", THREE).version == run.version == 1
