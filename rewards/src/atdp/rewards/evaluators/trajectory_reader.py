"""Finished trajectories as plain values: what judges and functions see.

The plain value is what functions get, and what a prompt shows::

    {"tenant_id", "trajectory_id", "attempt", "task_id", "agent_id", "status", "tool_errors",
     "reward", "steps": [0, 1, …], "messages": [{"role", "text", "tool_calls": [{"name",
     "arguments"}], "name", "call_id"}, …], "tools_json"}

Keys of a message without a value are left out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

from atdp.rewards.evaluators.ended_trajectory import EndedTrajectory

PlainTrajectory: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class NotReadable:
    """The reason why an ended trajectory is not evaluated, now or ever.

    `not_landed`: read again later. `goes_on`: it went on after this end and is evaluated at its
    next one. `refused`: governance does not allow it for training.
    """

    code: Literal["not_landed", "goes_on", "refused"]
    reason: str


class TrajectoryReader(Protocol):
    """Reads the trajectories of ends."""

    def read(
        self, tenant: str, ends: Sequence[EndedTrajectory]
    ) -> Sequence[PlainTrajectory | NotReadable]:
        """Return the trajectory of each end of a tenant, or why it cannot be read."""
        ...
