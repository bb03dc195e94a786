"""The order for a run: everything that its parts need, fixed when the run is started.

It holds the definition with which the run was requested, so that a schedule can change meanwhile.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from pydantic import TypeAdapter, ValidationError

from atdp.stack.errors import ScheduleError
from atdp.stack.schedules.refused_definition import REFUSED
from atdp.stack.schedules.schedule_definition import ScheduleDefinition, problems_of
from atdp.stack.schedules.schedule_state import Run, run_id


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOrder:
    """One run to make."""

    definition: ScheduleDefinition
    logical_time: datetime
    requested_at: datetime
    actor: str
    candidate: str | None = None
    """The version that made the run necessary, or None."""

    @classmethod
    def of(cls, run: Run, definition: ScheduleDefinition) -> "RunOrder":
        """Return the order for a run of this definition."""
        return cls(
            definition=definition,
            logical_time=run.logical_time,
            requested_at=run.requested_at,
            actor=run.actor,
            candidate=run.candidate,
        )

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> "RunOrder":
        """Return the order of its JSON form.

        Raises:
            ScheduleError: this version refuses its definition.
        """
        try:
            return _ADAPTER.validate_python(fields)
        except ValidationError as error:
            raise ScheduleError(
                REFUSED, f"this version of atdp refuses the order for a run: {problems_of(error)}"
            ) from error

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form, which is kept until the run has ended."""
        return dict(_ADAPTER.dump_python(self, mode="json"))

    @property
    def run_id(self) -> str:
        """The name of the run."""
        return run_id(self.definition.id, self.logical_time)

    @property
    def deadline(self) -> datetime:
        """The time at which the run ends without an evaluation."""
        return self.requested_at + timedelta(seconds=self.definition.deadline_s)

    @property
    def dataset(self) -> str:
        """The name of the dataset of the run."""
        if self.definition.dataset is not None:
            return self.definition.dataset
        moment = self.logical_time.astimezone(UTC)
        fraction = f".{moment.microsecond:06}" if moment.microsecond else ""
        return f"{self.definition.id}.{moment:%Y%m%dt%H%M%S}{fraction}z"

    @property
    def condition(self) -> str:
        """The SQL condition of the trajectories that the run's dataset holds."""
        definition = self.definition
        conditions = [before_sql(self.logical_time)]
        if definition.window_s is not None:
            since = self.logical_time - timedelta(seconds=definition.window_s)
            conditions.append(f"started_at >= {_timestamp(since)}")
        if selection := selection_sql(definition):
            conditions.append(selection)
        return " AND ".join(conditions)


def before_sql(logical_time: datetime) -> str:
    """Return the beginning of the condition of a run's dataset."""
    return f"started_at < {_timestamp(logical_time)}"


def selection_sql(definition: ScheduleDefinition) -> str:
    """Return the condition for the trajectories of a schedule at any time; empty: all."""
    conditions = [f"(\n{definition.where}\n)"] if definition.where else []
    if definition.tenants:
        from atdp.lakehouse import sql_literal

        names = ", ".join(map(sql_literal, definition.tenants))
        conditions.append(f"tenant_id IN ({names})")
    return " AND ".join(conditions)


def _timestamp(moment: datetime) -> str:
    return f"TIMESTAMPTZ '{moment.astimezone(UTC).isoformat()}'"


_ADAPTER = TypeAdapter(RunOrder)
