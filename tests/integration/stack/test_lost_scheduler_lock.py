"""A scheduler that was frozen, and lost the lock, continues when another one has done its work."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from atdp.runtime import Home

from .lost_scheduler_locks import LostLock, lose_within_a_run, lose_without_asking
from .scheduler_processes import SchedulerProcesses

pytestmark = pytest.mark.faults


@pytest.fixture
def case(tmp_path: Path) -> Iterator[LostLock]:
    processes = SchedulerProcesses(Home(tmp_path))
    yield LostLock(processes, processes, tmp_path)
    processes.kill()


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    """Return the file that is removed, as by somebody who restores the folder from a backup."""
    return tmp_path / "schedules" / "scheduler.lock"


@pytest.mark.parametrize(
    "part", ["evaluate", *(pytest.param(p, marks=pytest.mark.long) for p in ("pin", "record"))]
)
def test_a_frozen_scheduler_that_continues_adds_nothing_and_ends(
    case: LostLock, lock: Path, part: str
) -> None:
    lose_within_a_run(case, lock.unlink, part, freezes=True)


@pytest.mark.long
def test_without_the_guard_it_goes_on_beside_the_other_one(case: LostLock, lock: Path) -> None:
    lose_without_asking(case, lock.unlink, "evaluate")
