"""One recorder for the whole process, for programs that want no object to pass around.

`init` makes it once; the functions below then work from anywhere. Without `init` they raise:
recording nothing in silence would be worse.
"""

from typing import Any, Unpack

from atdp.schemas import EventId
from atdp.sdk.delivery_report import FlushReport
from atdp.sdk.envelope import RewardFields
from atdp.sdk.errors import ConfigurationError
from atdp.sdk.recorder import Recorder
from atdp.sdk.trajectory_handle import Trajectory, current_trajectory

_recorders: list[Recorder] = []


def init(**options: Any) -> Recorder:
    """Make the process's recorder; options as of `Recorder`.

    The one before, if any, stays open until closed.
    """
    recorder = Recorder(**options)
    _recorders.append(recorder)
    return recorder


def default_recorder() -> Recorder:
    """The recorder that `init` made last; raises ConfigurationError when there is none."""
    if not _recorders:
        raise ConfigurationError("no recorder yet: call atdp.sdk.init(tenant=…, sender=…) first")
    return _recorders[-1]


def trajectory(**options: Any) -> Trajectory:
    """A new trajectory of the process's recorder; options as of `Recorder.trajectory`."""
    return default_recorder().trajectory(**options)


def emit_reward(
    value: float | None = None,
    *,
    trajectory_id: str | None = None,
    attempt: int = 0,
    **fields: Unpack[RewardFields],
) -> EventId:
    """Reward the trajectory of that id, at any time; without an id, the ambient one."""
    if trajectory_id is not None:
        return default_recorder().emit_reward(trajectory_id, value, attempt=attempt, **fields)
    ambient = current_trajectory()
    if ambient is None:
        raise ConfigurationError(
            "emit_reward: no trajectory is running here; pass trajectory_id= (Trajectory.trajectory_id)"
        )
    return ambient.reward(value, **fields)


def flush(timeout_s: float = 10.0) -> FlushReport:
    """Wait for delivery and say each event's fate; see `Recorder.flush`."""
    return default_recorder().flush(timeout_s)
