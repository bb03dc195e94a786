"""One recorder for the whole process, for programs that want no object to pass around.

`init` makes it once; the functions below then work from anywhere. Without `init` they raise,
because a program that records nothing must not go unnoticed.
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
    """Make the process's recorder; the options are those of `Recorder`.

    An earlier recorder stays open until it is closed.
    """
    recorder = Recorder(**options)
    _recorders.append(recorder)
    return recorder


def default_recorder() -> Recorder:
    """Return the recorder that `init` made last.

    Raises:
        ConfigurationError: there is none.
    """
    if not _recorders:
        raise ConfigurationError("no recorder yet: call atdp.sdk.init(tenant=…, sender=…) first")
    return _recorders[-1]


def trajectory(**options: Any) -> Trajectory:
    """Return a new trajectory of the process's recorder; see `Recorder.trajectory`."""
    return default_recorder().trajectory(**options)


def emit_reward(
    value: float | None = None,
    *,
    trajectory_id: str | None = None,
    attempt: int = 0,
    **fields: Unpack[RewardFields],
) -> EventId:
    """Reward the trajectory of that id, at any time; without an id, the ambient one.

    Raises:
        ConfigurationError: there is no recorder, or no id and no ambient trajectory.
    """
    if trajectory_id is not None:
        return default_recorder().emit_reward(trajectory_id, value, attempt=attempt, **fields)
    ambient = current_trajectory()
    if ambient is None:
        raise ConfigurationError(
            "emit_reward: no trajectory is running here; "
            "pass trajectory_id= (Trajectory.trajectory_id)"
        )
    return ambient.reward(value, **fields)


def flush(timeout_s: float = 10.0) -> FlushReport:
    """Wait for delivery and return the fate of each event; see `Recorder.flush`."""
    return default_recorder().flush(timeout_s)
