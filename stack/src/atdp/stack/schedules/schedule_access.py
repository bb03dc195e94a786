"""The schedules that a caller may see, and what it may do with them.

An operator may do everything; over HTTP it may not define commands, because whoever has its key
could then run any program on this machine. An evaluator sees and runs the schedules that read the
trajectories of its tenant alone. It defines and changes those that have no effect beyond them: a
pinned dataset and a file of gates may be another's, `record` is part of a release that may serve
other tenants, and a webhook is a request from this machine to any address. A definition that this
version refuses may do any of this, so an operator replaces or removes it. A schedule that a caller
may not see does not exist for it.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from atdp.runtime import ANY_TENANT, Principal
from atdp.stack.errors import ScheduleError, StackError
from atdp.stack.schedules.refused_definition import RefusedDefinition, StoredDefinition
from atdp.stack.schedules.schedule_definition import ScheduleDefinition
from atdp.stack.schedules.schedule_desk import ScheduleDesk
from atdp.stack.schedules.schedule_state import AppliedSchedule, Run, ScheduleStatus


class ScheduleDenied(StackError):
    """The caller may not do this with schedules."""


class CallersSchedules:
    """The schedules of a desk for one caller.

    Every method raises `ScheduleDenied` where the caller may not do this, and `ScheduleError` as
    `ScheduleDesk` does.
    """

    def __init__(self, desk: ScheduleDesk, caller: Principal, *, on_machine: bool) -> None:
        """Act for `caller`; `on_machine`: it runs a program on this machine itself."""
        if not caller.may("evaluate"):
            raise ScheduleDenied(
                f"{caller.actor} may not see schedules; use the key of an evaluator or operator"
            )
        self._desk = desk
        self._caller = caller
        self._on_machine = on_machine
        self._everything = caller.may_act_for(ANY_TENANT)

    @property
    def may_see_receivers(self) -> bool:
        """Return whether the caller may see the whole URLs of webhooks."""
        return self._everything

    def list(self) -> tuple[ScheduleStatus, ...]:
        """Return the schedules that the caller may see, ordered by id."""
        return tuple(self._shown(each) for each in self._desk.list() if self._sees(each.definition))

    def show(self, schedule: str) -> ScheduleStatus:
        """Return a schedule, also a removed one."""
        try:
            status = self._desk.show(schedule)
        except ScheduleError as error:
            if error.code != "unknown_schedule" or self._everything:
                raise
            status = None
        if status is None or not self._sees(status.definition):
            raise ScheduleError(
                "unknown_schedule",
                f"there is no schedule {schedule!r} of the tenant {self._caller.tenant}",
            )
        return self._shown(status)

    def add(self, definition: ScheduleDefinition) -> ScheduleStatus:
        """Add a schedule."""
        self._check(definition)
        self._check_present({definition.id})
        return self._shown(self._desk.add(definition))

    def apply(
        self, definitions: Sequence[ScheduleDefinition], *, prune: bool = False
    ) -> tuple[AppliedSchedule, ...]:
        """Bring schedules to these definitions; only an operator may `prune`."""
        if prune and not self._everything:
            raise ScheduleDenied("only an operator may remove all schedules that are not named")
        for each in definitions:
            self._check(each)
        self._check_present({each.id for each in definitions})
        return self._desk.apply(definitions, prune=prune)

    def pause(self, schedule: str, *, reason: str = "") -> ScheduleStatus:
        """Request no further runs by clock or data."""
        return self._shown(self._desk.pause(self._seen(schedule), reason=reason))

    def resume(self, schedule: str, *, reason: str = "") -> ScheduleStatus:
        """Go on from now."""
        return self._shown(self._desk.resume(self._seen(schedule), reason=reason))

    def remove(self, schedule: str) -> None:
        """Remove a schedule; its runs stay."""
        self._check_present({self._seen(schedule)})
        self._desk.remove(schedule)

    def trigger(
        self, schedule: str, logical_time: datetime | None = None, key: str | None = None
    ) -> Run:
        """Request a run; the one that exists where there is one."""
        return self._checked_run(self._desk.trigger(self._seen(schedule), logical_time, key))

    def backfill(self, schedule: str, since: datetime, until: datetime) -> tuple[Run, ...]:
        """Request a run for each time of the clock in [since, until)."""
        runs = self._desk.backfill(self._seen(schedule), since, until)
        return tuple(filter(self._sees_run, runs))

    def runs(self, schedule: str, *, limit: int = 100) -> tuple[Run, ...]:
        """Return the runs with the latest logical times, newest first."""
        runs = self._desk.runs(self._seen(schedule), limit=limit)
        return tuple(filter(self._sees_run, runs))

    def run(self, schedule: str, logical_time: datetime) -> Run:
        """Return one run."""
        return self._checked_run(self._desk.run(self._seen(schedule), logical_time))

    def _seen(self, schedule: str) -> str:
        return self.show(schedule).definition.id

    def _sees(self, definition: StoredDefinition) -> bool:
        return self._everything or definition.tenants == (self._caller.tenant,)

    def _sees_run(self, run: Run) -> bool:
        """Return whether the caller may see a run: an earlier version may be another tenant's."""
        return self._everything or self._sees(self._desk.definition(run.schedule, run.version))

    def _shown(self, status: ScheduleStatus) -> ScheduleStatus:
        last = status.last_run
        return status if last is None or self._sees_run(last) else replace(status, last_run=None)

    def _checked_run(self, run: Run) -> Run:
        if not self._sees_run(run):
            raise ScheduleError("unknown_run", f"{run.id} is not a run for this tenant")
        return run

    def _check(self, definition: ScheduleDefinition) -> None:
        """Check that the caller may define this schedule."""
        named = f"the schedule {definition.id}"
        if definition.runs_commands and not self._on_machine:
            raise ScheduleDenied(
                f"{named} runs a command; define it on the machine with `atdp schedule apply`"
            )
        if self._everything:
            return
        if not self._sees(definition):
            raise ScheduleDenied(
                f"{named} has to name the tenant {self._caller.tenant}, and no other"
            )
        for name in ("dataset", "gates", "record", "notify"):
            if getattr(definition, name):
                raise ScheduleDenied(f"{named} sets {name}, which only an operator may do")

    def _check_present(self, ids: set[str]) -> None:
        """Check that the caller may change what is defined under these ids, removed or not."""
        for name in sorted(ids):
            try:
                present = self._desk.show(name).definition
            except ScheduleError as error:
                if error.code != "unknown_schedule":
                    raise
                continue
            if not self._everything:
                if not self._sees(present):
                    raise ScheduleError("schedule_exists", f"the id {name} is taken; use another")
                if isinstance(present, RefusedDefinition):
                    raise ScheduleDenied(f"an operator has to act: {present.message}")
                self._check(present)
