"""The rounds of the scheduler: what is due, what is made up for, and what is started."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from atdp.replay import Verdict
from atdp.runtime import Home
from atdp.stack.errors import ScheduleError
from atdp.stack.schedules.run_log import RunLog
from atdp.stack.schedules.run_order import RunOrder
from atdp.stack.schedules.run_requests import DataPoint
from atdp.stack.schedules.schedule_definition import DataTrigger, ScheduleDefinition
from atdp.stack.schedules.schedule_desk import ScheduleDesk
from atdp.stack.schedules.schedule_metrics import SchedulerMetrics
from atdp.stack.schedules.schedule_state import RunOutcome
from atdp.stack.schedules.schedule_store import ScheduleStore
from atdp.stack.schedules.scheduler import Scheduler

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
PASSED = RunOutcome(verdict=Verdict.PASS, reasons=("shown",), text="shown")


def hourly(**fields: Any) -> ScheduleDefinition:
    return ScheduleDefinition(**{"id": "s", "cron": "0 * * * *", "model": "m", **fields})


def on_data(trigger: str, **fields: Any) -> ScheduleDefinition:
    return hourly(cron=None, on=trigger, **fields)


@dataclass
class World:
    """A scheduler with a clock, data and a starter that the test controls."""

    home: Home
    time: datetime = NOON
    points: list[DataPoint] = field(default_factory=list)
    started: list[RunOrder] = field(default_factory=list)
    given_up: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.store = ScheduleStore(self.home)
        self.desk = ScheduleDesk(self.home, now=lambda: self.time)
        self.registry = CollectorRegistry()
        self.scheduler = self.restarted()

    def restarted(self) -> Scheduler:
        self.scheduler = Scheduler(
            store=self.store,
            data=self,
            runs=lambda: self,
            metrics=SchedulerMetrics(CollectorRegistry()),
            now=lambda: self.time,
        )
        return self.scheduler

    def since(
        self, trigger: DataTrigger, definition: ScheduleDefinition, position: int
    ) -> list[DataPoint]:
        if definition.model == "broken":
            raise ScheduleError("store", "the lake is closed")
        if definition.model == "unknown":
            raise ZeroDivisionError("a value of the lake")
        if trigger == "judged_trajectories":
            return self.points
        return [point for point in self.points if point.position > position]

    def start(self, order: RunOrder) -> None:
        self.started.append(order)

    def settle(self, order: RunOrder) -> None:
        if order.run_id in self.given_up:
            given_up = RunOutcome(
                verdict=Verdict.ERROR, reasons=("run_given_up",), text=self.given_up[order.run_id]
            )
            RunLog(self.store, lambda: self.time).ended(order, given_up)

    def after(self, passed: timedelta) -> list[str]:
        """Make a round when this time has passed; returns the hours of all runs."""
        self.time += passed
        self.scheduler.round()
        return [f"{run.logical_time:%d %H:%M}" for run in reversed(self.desk.runs("s"))]

    def finish(self) -> None:
        for order in self.started:
            RunLog(self.store, lambda: self.time).ended(order, PASSED)
        self.started.clear()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(Home(tmp_path))
    yield made
    made.store.close()
    made.desk.close()


def test_each_time_of_the_clock_is_requested_once(world: World) -> None:
    world.desk.add(hourly())
    assert world.after(HOUR / 2) == []
    assert world.after(HOUR / 2) == ["22 13:00"]
    assert world.after(timedelta(seconds=1)) == ["22 13:00"]
    world.restarted()
    assert world.after(timedelta(seconds=1)) == ["22 13:00"]
    assert world.desk.show("s").next_at == NOON + 2 * HOUR


@pytest.mark.parametrize(
    ("catch_up", "late", "expected"),
    [
        ("all", timedelta(minutes=20), ["22 13:00", "22 14:00", "22 15:00"]),
        ("latest", timedelta(minutes=20), ["22 15:00"]),
        ("none", timedelta(minutes=20), []),
        ("none", timedelta(seconds=20), ["22 15:00"]),
    ],
)
def test_missed_times_are_made_up_for_as_the_policy_says(
    world: World, catch_up: str, late: timedelta, expected: list[str]
) -> None:
    world.desk.add(hourly(catch_up=catch_up))
    assert world.after(3 * HOUR + late) == expected
    world.finish()
    world.restarted()
    assert world.after(timedelta(minutes=30)) == expected


def test_times_of_a_pause_get_no_run(world: World) -> None:
    world.desk.add(hourly(catch_up="all"))
    world.desk.pause("s")
    assert world.after(5 * HOUR) == []
    world.desk.resume("s")
    assert world.after(HOUR) == ["22 18:00"]


def test_a_time_that_was_backfilled_already_is_not_requested_again(world: World) -> None:
    world.desk.add(hourly(catch_up="all"))
    world.time += 2 * HOUR
    world.desk.backfill("s", NOON, world.time)
    assert world.after(timedelta(0)) == ["22 12:00", "22 13:00", "22 14:00"]
    causes = [run.cause for run in reversed(world.desk.runs("s"))]
    assert causes == ["backfill", "backfill", "clock"]


def test_runs_beyond_the_limit_wait_and_with_latest_the_newest_time_follows(world: World) -> None:
    world.desk.add(hourly(catch_up="latest", max_concurrent=1))
    assert world.after(HOUR) == ["22 13:00"]
    assert world.after(3 * HOUR) == ["22 13:00"]
    world.finish()
    assert world.after(timedelta(0)) == ["22 13:00", "22 16:00"]
    assert len(world.started) == 1


def test_with_all_runs_start_in_their_order_up_to_the_limit(world: World) -> None:
    world.desk.add(hourly(catch_up="all", max_concurrent=2))
    world.after(5 * HOUR)
    assert [order.logical_time.hour for order in world.started] == [13, 14]
    world.finish()
    world.after(timedelta(0))
    assert [order.logical_time.hour for order in world.started] == [15, 16]


def test_a_run_keeps_the_definition_with_which_it_was_requested(world: World) -> None:
    world.desk.add(hourly(catch_up="all", max_concurrent=1))
    world.after(2 * HOUR)
    world.desk.apply([hourly(catch_up="all", max_concurrent=1, candidate="v9")])
    world.finish()
    world.after(timedelta(0))
    world.finish()
    assert world.after(HOUR) == ["22 13:00", "22 14:00", "22 15:00"]
    versions = [run.version for run in reversed(world.desk.runs("s"))]
    assert versions == [1, 1, 2]
    assert world.started[0].definition.candidate == "v9"


def test_a_run_that_was_given_up_ends_with_an_error(world: World) -> None:
    world.desk.add(hourly())
    world.after(HOUR)
    (run,) = world.desk.runs("s")
    world.given_up[run.id] = "The run was given up."
    world.after(timedelta(0))
    (ended,) = world.desk.runs("s")
    assert ended.outcome is not None
    assert (ended.outcome.verdict, ended.outcome.reasons) == (Verdict.ERROR, ("run_given_up",))


def test_data_that_exist_when_a_schedule_is_added_request_nothing(world: World) -> None:
    world.points = [DataPoint(position=7, at=NOON)]
    world.desk.add(on_data("new_snapshot"))
    assert world.after(timedelta(0)) == []
    world.points.append(DataPoint(position=8, at=NOON + HOUR / 4))
    assert world.after(HOUR) == ["22 12:15"]
    world.restarted()
    assert world.after(HOUR) == ["22 12:15"]


def test_judged_trajectories_request_a_run_at_every_n(world: World) -> None:
    world.points = [DataPoint(position=10, at=NOON)]
    world.desk.add(on_data("judged_trajectories", count=100, max_concurrent=9))
    runs = world.after(timedelta(0))
    for position in (50, 109, 110, 150, 209, 215, 300):
        world.time += HOUR
        world.points = [DataPoint(position=position, at=world.time)]
        runs = world.after(timedelta(0))
    assert runs == ["22 15:00", "22 18:00"]


def test_each_new_candidate_gets_a_run_of_its_own(world: World) -> None:
    world.desk.add(on_data("new_candidate"))
    world.after(timedelta(0))
    at = NOON + HOUR / 2
    world.points = [
        DataPoint(position=number, at=at, candidate=f"v{number}") for number in (3, 5, 6)
    ]
    assert len(world.after(HOUR)) == 3
    assert [run.candidate for run in reversed(world.desk.runs("s"))] == ["v3", "v5", "v6"]
    assert len(world.after(HOUR)) == 3


def test_an_external_schedule_is_only_requested_by_others(world: World) -> None:
    world.desk.add(on_data("external"))
    assert world.after(9 * HOUR) == []
    world.desk.trigger("s", NOON)
    assert world.after(HOUR) == ["22 12:00"]
    assert len(world.started) == 1


def test_a_schedule_that_fails_does_not_keep_others_from_their_runs(world: World) -> None:
    world.desk.add(on_data("new_snapshot", id="broken", model="broken"))
    world.desk.add(hourly())
    assert world.after(HOUR) == ["22 13:00"]
    assert world.scheduler.problem() == "broken (data): the lake is closed"
    assert world.after(timedelta(seconds=1)) == ["22 13:00"]
    assert world.scheduler.problem() is not None
    world.desk.remove("broken")
    world.after(timedelta(seconds=1))
    assert world.scheduler.problem() is None


def test_a_removed_schedule_ends_its_open_runs_and_requests_no_others(world: World) -> None:
    world.desk.add(hourly(catch_up="all"))
    world.after(2 * HOUR)
    world.desk.remove("s")
    world.finish()
    assert world.after(5 * HOUR) == ["22 13:00", "22 14:00"]
    assert [order.logical_time.hour for order in world.started] == [14]


def test_an_error_of_a_library_does_not_keep_others_from_their_runs(world: World) -> None:
    world.desk.add(on_data("new_snapshot", id="broken", model="unknown"))
    world.desk.add(hourly())
    assert world.after(HOUR) == ["22 13:00"]
    assert (
        world.scheduler.problem() == "broken (data): it ended with ZeroDivisionError; see the log"
    )


def test_a_schedule_with_many_runs_does_not_keep_others_from_theirs(world: World) -> None:
    world.desk.add(hourly(id="a", catch_up="all", max_concurrent=9))
    world.desk.add(hourly())
    world.after(20 * HOUR)
    assert sorted(order.definition.id for order in world.started) == ["a", "a", "a", "s"]


def test_a_run_whose_deadline_passes_while_others_never_end_is_started_and_so_ends(
    world: World,
) -> None:
    for number in range(4):
        world.desk.add(hourly(id=f"a{number}", deadline_s=10**6))
    world.desk.add(hourly(on="external", cron=None, deadline_s=7200))
    world.after(HOUR)
    assert len(world.started) == 4
    world.desk.trigger("s", NOON)
    world.after(HOUR)
    assert len(world.started) == 4
    world.after(HOUR + timedelta(seconds=1))
    assert [order.definition.id for order in world.started[4:]] == ["s"]


def test_more_times_than_one_round_deals_with_are_dealt_with_by_the_next_ones(
    world: World,
) -> None:
    world.desk.add(hourly(id="all", cron="* * * * *", catch_up="all"))
    world.desk.add(hourly(cron="* * * * *", catch_up="latest"))
    assert world.after(timedelta(minutes=2500)) == []
    assert world.after(timedelta(0)) == []
    assert world.after(timedelta(0)) == ["24 05:40"]
    assert world.after(timedelta(0)) == ["24 05:40"]
    assert len(world.desk.runs("all", limit=10**6)) == 2500


def test_after_a_clock_that_was_ahead_the_schedule_says_what_to_do_and_begins_again(
    world: World,
) -> None:
    world.desk.add(hourly())
    assert world.after(timedelta(days=40)) == ["01 12:00"]
    world.finish()
    world.time = NOON
    assert world.after(5 * HOUR) == ["01 12:00"]
    assert "since the clock of a machine was ahead" in (world.scheduler.problem() or "")
    assert world.desk.show("s").next_at == NOON + timedelta(days=40) + HOUR
    world.desk.pause("s")
    world.desk.resume("s")
    assert world.after(HOUR) == ["22 18:00", "01 12:00"]
    assert world.scheduler.problem() is None


def test_a_clock_that_is_set_back_a_little_requests_no_time_twice(world: World) -> None:
    world.desk.add(hourly())
    assert world.after(HOUR) == ["22 13:00"]
    world.finish()
    assert world.after(-timedelta(minutes=3)) == ["22 13:00"]
    assert world.after(timedelta(minutes=4)) == ["22 13:00"]
    assert world.after(HOUR) == ["22 13:00", "22 14:00"]


def test_a_clock_that_is_set_back_does_not_stop_the_looks_at_the_data(world: World) -> None:
    world.desk.add(on_data("new_snapshot"))
    world.after(timedelta(0))
    world.points = [DataPoint(position=3, at=NOON + timedelta(seconds=1))]
    assert world.after(-timedelta(days=1)) == ["22 12:00"]


def test_data_that_came_after_the_definition_and_before_the_first_look_request_runs(
    world: World,
) -> None:
    world.desk.add(on_data("new_candidate"))
    world.points = [
        DataPoint(position=2, at=NOON - HOUR, candidate="v1"),
        DataPoint(position=3, at=NOON + HOUR, candidate="v2"),
    ]
    world.after(2 * HOUR)
    world.after(HOUR)
    assert [run.candidate for run in world.desk.runs("s")] == ["v2"]


def test_judged_trajectories_that_became_fewer_are_a_new_start(world: World) -> None:
    world.points = [DataPoint(position=1000, at=NOON)]
    world.desk.add(on_data("judged_trajectories", count=10))
    runs = world.after(timedelta(0))
    for position in (600, 605, 610):
        world.time += HOUR
        world.points = [DataPoint(position=position, at=world.time)]
        runs = world.after(timedelta(0))
    assert runs == ["22 15:00"]
