"""Stored definitions that this version of atdp refuses, or that cannot be used on this machine.

Definitions are validated each time they are read, since another version may have stored them, and
a machine may lack a time zone. A refused one is shown with its problem, and nothing runs by it: no
run is requested or started until somebody replaces or removes the schedule. Other schedules go on.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from atdp.stack.errors import ScheduleError
from atdp.stack.schedules.schedule_definition import ScheduleDefinition

REFUSED = "definition_refused"
"""Code of the error, and reason of a run that cannot be made."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RefusedDefinition:
    """One version of a schedule, as it is stored."""

    id: str
    fields: Mapping[str, Any]
    """The stored fields; nothing about them is known."""
    problem: str
    """Each wrong field with its problem."""

    @property
    def tenants(self) -> tuple[str, ...]:
        """The tenants that it names; none where that cannot be read."""
        named = self.fields.get("tenants")
        if not isinstance(named, list) or not all(isinstance(each, str) for each in named):
            return ()
        return tuple(named)

    @property
    def message(self) -> str:
        """The problem, and what to do."""
        return (
            f"this version of atdp refuses the stored definition of {self.id}: {self.problem}; "
            "`atdp schedule apply -f FILE` replaces it, "
            f"`atdp schedule remove {self.id}` removes it"
        )


StoredDefinition: TypeAlias = ScheduleDefinition | RefusedDefinition


def accepted(definition: StoredDefinition) -> ScheduleDefinition:
    """Return a definition by which something may run.

    Raises:
        ScheduleError: it is refused.
    """
    if isinstance(definition, RefusedDefinition):
        raise ScheduleError(REFUSED, definition.message)
    return definition
