"""In-memory adapters of the control plane's ports, for tests."""

from collections.abc import Sequence

from atdp.control.outbox import OutboxMessage


class MemoryTopic:
    """A `DecisionTopic` that keeps its messages in memory."""

    def __init__(self) -> None:
        self.messages: list[OutboxMessage] = []

    def publish(self, messages: Sequence[OutboxMessage]) -> None:
        """See `DecisionTopic`."""
        self.messages.extend(messages)
