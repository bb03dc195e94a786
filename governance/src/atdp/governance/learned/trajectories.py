"""The port through which governance asks for the states of trajectories and settles them."""

from typing import Final, Protocol

from atdp.governance.learned.learned_store import StateKey
from atdp.governance.learned.trajectory_state import EMPTY_STATE, TrajectoryState


class Trajectories(Protocol):
    """Gives and settles the states of trajectories."""

    def state(self, key: StateKey, /) -> TrajectoryState:
        """Return the state of a trajectory before the event that is governed now."""
        ...

    def settle(self, key: StateKey, state: TrajectoryState, /) -> TrajectoryState:
        """Govern the stale events of a trajectory again, if it has ended; return its state then.

        `state` has what the event that is governed now teaches; the event is not listed yet. Events
        that cannot be governed again stay stale.
        """
        ...


class NoTrajectories:
    """Knows nothing: every event is taken for the first one of its trajectory."""

    def state(self, _key: StateKey, /) -> TrajectoryState:
        """See `Trajectories`."""
        return EMPTY_STATE

    def settle(self, _key: StateKey, state: TrajectoryState, /) -> TrajectoryState:
        """See `Trajectories`."""
        return state


NO_TRAJECTORIES: Final = NoTrajectories()
