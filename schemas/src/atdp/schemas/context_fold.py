"""The fold of a trajectory's context as readers do it: with a check that nothing is missing.

A fold is *intact* while its messages are known to be those that the model was shown. It stops being
intact when events are missing (a gap that names sequence numbers, a hole in the sequence), when an
observation keeps more messages than there are, and when an observation's `context_hash` is another
one than that of the fold. It is intact again at the next observation that proves it: one with the
hash of the fold, or one that begins a new context (`context_base` 0) and has no hash.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Generic, Self, TypeVar

from atdp.schemas.context import EMPTY_CONTEXT_HASH, context_hashes, contributed_messages
from atdp.schemas.event import Event
from atdp.schemas.lifecycle import Gap
from atdp.schemas.message import Message
from atdp.schemas.observation import Observation

M = TypeVar("M")


@dataclass(slots=True)
class ContextFold(Generic[M]):
    """The context after the events folded so far, in any form of message."""

    messages: list[M] = field(default_factory=list)
    hashes: list[str] = field(default_factory=list)
    """The hash of the context up to and including each message."""
    intact: bool = True

    @classmethod
    def of(cls, events: Iterable[Event]) -> "ContextFold[Message]":
        """Return the fold of events, given in the order of the log."""
        fold = ContextFold[Message]()
        numbers: dict[str, int] = {}
        for event in events:
            if event.seq > numbers.get(event.producer_id, -1) + 1:
                fold.miss()
            numbers[event.producer_id] = max(event.seq, numbers.get(event.producer_id, -1))
            fold.add_event(event)
        return fold

    @property
    def hash(self) -> str:
        """The hash of the context."""
        return self.hashes[-1] if self.hashes else EMPTY_CONTEXT_HASH

    def add_event(self: "ContextFold[Message]", event: Event) -> None:
        """Fold one event in; the sequence is not looked at."""
        match event.body:
            case Observation(messages=messages, context_base=base, context_hash=claimed):
                self.observe(event.event_id, messages, base=base, claimed=claimed)
            case Gap(from_seq=int()):
                self.miss()
            case body:
                self.extend(event.event_id, contributed_messages(body))

    def extend(self, event_id: str, messages: Sequence[M]) -> None:
        """Add the messages that an event contributes."""
        self.hashes.extend(context_hashes(self.hash, event_id, len(messages)))
        self.messages.extend(messages)

    def observe(
        self, event_id: str, messages: Sequence[M], *, base: int | None, claimed: str | None
    ) -> None:
        """Fold an observation in; `claimed` is its `context_hash`."""
        if base is not None:
            if base > len(self.messages):
                self.intact = False
            del self.messages[base:], self.hashes[base:]
        self.extend(event_id, messages)
        if claimed is not None:
            self.intact = claimed == self.hash
        elif base == 0:
            self.intact = True

    def miss(self) -> None:
        """Note that events are missing at this place."""
        self.intact = False

    def copy(self) -> Self:
        """Return an independent fold in the same state."""
        return type(self)(list(self.messages), list(self.hashes), self.intact)
