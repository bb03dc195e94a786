"""An agent that a replay asks for its next turn, and the recorded agent, which repeats itself."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from atdp.replay.cassette.recording import Chat, Recording
from atdp.schemas import Message


class ReplayedAgent(Protocol):
    """The source of the model's turns in one replay."""

    def next_turn(self, messages: Sequence[Chat], tools: Sequence[Chat]) -> Message | None:
        """Return the next turn; None: there is none."""
        ...


@dataclass(slots=True)
class RecordedAgent:
    """The agent of a recording, which says what it said, whatever it is shown."""

    recording: Recording
    _turns: int = 0

    def next_turn(self, messages: Sequence[Chat], tools: Sequence[Chat]) -> Message | None:  # noqa: ARG002
        """See `ReplayedAgent`."""
        if self._turns == len(self.recording.turns):
            return None
        self._turns += 1
        return self.recording.turns[self._turns - 1].message
