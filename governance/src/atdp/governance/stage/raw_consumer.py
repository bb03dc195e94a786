"""The consumer of the raw topic and of the orders about quarantined records.

Its positions follow the committed transactions. Both topics have the same number of partitions, and
the strategy of assignment gives the same numbers of both to one worker, which so has the learned
values of the trajectories that an order is about.
"""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from atdp.governance.errors import GovernanceError
from atdp.governance.stage.settings import StageSettings
from atdp.schemas import TopicRole

_log = logging.getLogger("atdp.governance")

_FAILURE_PAUSE_S: Final = 0.5
_METADATA_TIMEOUT_S: Final = 10.0
_ROLES: Sequence[TopicRole] = (
    "events_raw",
    "events_governed",
    "events_quarantine",
    "audit",
    "learned_values",
    "quarantine_orders",
)
_BY_RAW_PARTITION: Sequence[TopicRole] = ("events_governed", "learned_values", "quarantine_orders")


class RawConsumer:
    """Reads raw records and orders as a member of the governance group. Not thread-safe."""

    def __init__(
        self, settings: StageSettings, *, on_assignment: Callable[[Sequence[int]], None]
    ) -> None:
        """`on_assignment` is called with the partitions that are assigned or taken away."""
        self._settings = settings
        self._on_assignment = on_assignment
        self._topic = settings.topic("events_raw")
        self._consumer = Consumer(dict(settings.consumer()))

    def check_topics(self) -> None:
        """Check that the topics of governance exist and match each other.

        Raises:
            GovernanceError: the broker does not answer, a topic is missing, or a topic that is
                written by raw partition differs from the raw one in its number of partitions.
        """
        try:
            topics = self._consumer.list_topics(timeout=_METADATA_TIMEOUT_S).topics
        except KafkaException as error:
            raise GovernanceError(f"the broker does not answer: {error.args[0].str()}") from error
        counts = {}
        for role in _ROLES:
            name = self._settings.topic(role)
            if name not in topics or topics[name].error is not None:
                raise GovernanceError(
                    f"the topic {name} does not exist; `atdp up` creates the topics"
                )
            counts[role] = len(topics[name].partitions)
        for role in _BY_RAW_PARTITION:
            if counts["events_raw"] != counts[role]:
                raise GovernanceError(
                    f"{self._topic} has {counts['events_raw']} partitions "
                    f"and {self._settings.topic(role)} has {counts[role]}; "
                    "make them equal, because the order of events within a trajectory depends on it"
                )

    def subscribe(self) -> None:
        """Join the group."""
        self._consumer.subscribe(
            [self._topic, self._settings.topic("quarantine_orders")],
            on_assign=self._assignment_changed,
            on_revoke=self._assignment_changed,
            on_lost=self._assignment_changed,
        )

    def consume(self, most: int, wait_s: float) -> list[Message]:
        """Return at most `most` messages; errors that the broker reports are logged."""
        messages = []
        for message in self._consumer.consume(most, wait_s):
            error = message.error()
            if error is None:
                messages.append(message)
            elif error.code() != KafkaError._PARTITION_EOF:
                _log.warning(
                    "the broker reported an error while consuming", extra={"why": error.str()}
                )
        return messages

    def offsets_after(self, messages: Sequence[Message]) -> list[TopicPartition]:
        """Return the offsets to commit when all of `messages` are done."""
        last = {(each.topic(), each.partition()): each.offset() for each in messages}
        return [TopicPartition(*place, at + 1) for place, at in last.items()]

    def group_metadata(self) -> Any:
        """Return the group membership that a transaction commits offsets for."""
        return self._consumer.consumer_group_metadata()

    def read_again(self, messages: Sequence[Message]) -> None:
        """Go back to the first of `messages` in each partition."""
        first: dict[tuple[str, int], int] = {}
        for message in messages:
            first.setdefault((message.topic(), message.partition()), message.offset())
        self._seek([TopicPartition(*place, at) for place, at in first.items()])

    def rewind(self) -> None:
        """Go back to the committed offsets."""
        try:
            positions = self._consumer.committed(self._consumer.assignment(), _METADATA_TIMEOUT_S)
        except KafkaException as error:
            self._join_again(str(error))
            return
        # A failed answer has no valid offset either; it must not be read as "nothing committed
        # yet".
        failures = [position.error.str() for position in positions if position.error is not None]
        if failures:
            self._join_again(failures[0])
            return
        self._seek(
            [
                TopicPartition(
                    position.topic,
                    position.partition,
                    position.offset if position.offset >= 0 else OFFSET_BEGINNING,
                )
                for position in positions
            ]
        )

    def pause(self) -> None:
        """Stop reading all partitions that are assigned now; the group membership is kept."""
        self._consumer.pause(self._consumer.assignment())

    def resume(self) -> None:
        """Read all assigned partitions again."""
        self._consumer.resume(self._consumer.assignment())

    def lag(self) -> Iterator[tuple[int, int]]:
        """Yield each raw partition with the number of its records that are not read yet."""
        assigned = [each for each in self._consumer.assignment() if each.topic == self._topic]
        for position in self._consumer.position(assigned):
            _, high = self._consumer.get_watermark_offsets(position, cached=True)
            if position.offset >= 0 and high >= 0:
                yield position.partition, max(0, high - position.offset)

    def close(self) -> None:
        """Leave the group."""
        self._consumer.close()

    def _assignment_changed(self, _: Consumer, partitions: Sequence[TopicPartition]) -> None:
        self._on_assignment([each.partition for each in partitions])

    def _seek(self, positions: Sequence[TopicPartition]) -> None:
        try:
            for position in positions:
                self._consumer.seek(position)
        except KafkaException as error:
            self._join_again(str(error))

    def _join_again(self, why: str) -> None:
        """Leave and join the group, which starts again from the committed offsets."""
        _log.warning("could not rewind, joining the group again", extra={"why": why})
        self._consumer.close()
        time.sleep(_FAILURE_PAUSE_S)
        self._consumer = Consumer(dict(self._settings.consumer()))
        self.subscribe()
