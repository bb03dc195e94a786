"""Which decision step an event belongs to.

A step is observation, state, action, outcome. A model action (message, generation) opens a step
unless one is open that has none yet; an observation or internal state after an action already
belongs to the next decision; tool calls and the like carry out the step's model action and stay in
it. For agents whose model is not recorded, a tool call that follows an outcome opens the next step.
"""

from atdp.schemas import Action, Body, InternalState, Observation, Outcome


class Steps:
    """Numbers steps of one trajectory from 0."""

    def __init__(self) -> None:
        """Before the first action."""
        self.current = 0
        self._acted = False
        self._by_model = False
        self._answered = False

    def of(self, body: Body) -> int:
        """The step of the next event."""
        match body:
            case Action(type="message" | "generation"):
                if self._acted:
                    self._open()
                self._acted = self._by_model = True
            case Action():
                if self._answered and not self._by_model:
                    self._open()
                self._acted = True
            case Observation() | InternalState():
                if self._acted:
                    self._open()
            case Outcome():
                self._answered = self._acted
            case _:
                pass
        return self.current

    def _open(self) -> None:
        self.current += 1
        self._acted = self._by_model = self._answered = False
