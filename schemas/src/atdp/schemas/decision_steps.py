"""The decision step that an event belongs to.

A step is observation, state, action, outcome. A model action (message, generation) opens a step
unless a step is open that has no action yet. An observation or internal state after an action
belongs to the next decision. Tool calls and the like carry out the step's model action and stay in
its step. For agents whose model is not recorded, a tool call that follows an outcome opens the next
step.
"""

from dataclasses import dataclass, replace
from typing import Self

from atdp.schemas.action import Action
from atdp.schemas.event import Body
from atdp.schemas.observation import InternalState, Observation
from atdp.schemas.outcome import Outcome


@dataclass(slots=True)
class StepCounter:
    """Counts the steps of one trajectory from 0; `current` is the step that is open."""

    current: int = 0
    _acted: bool = False
    _by_model: bool = False
    _answered: bool = False

    def step_of(self, body: Body) -> int:
        """Return the step of the next event, whose body is `body`."""
        match body:
            case Action(type="message" | "generation"):
                if self._acted:
                    self.open_next()
                self._acted = self._by_model = True
            case Action():
                if self._answered and not self._by_model:
                    self.open_next()
                self._acted = True
            case Observation() | InternalState():
                if self._acted:
                    self.open_next()
            case Outcome():
                self._answered = self._acted
            case _:
                pass
        return self.current

    def open_next(self) -> None:
        """Open the next step now, without waiting for an event that belongs to it."""
        self.current += 1
        self._acted = self._by_model = self._answered = False

    def copy(self) -> Self:
        """Return an independent counter in the same state."""
        return replace(self)
