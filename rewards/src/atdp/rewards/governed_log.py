"""The ends of the governed topic: a cheap sign that there is something new."""

from confluent_kafka import Consumer, KafkaException, TopicPartition

from atdp.runtime import KafkaSettings
from atdp.schemas import LOOK_GROUPS, topic

_TIMEOUT_S = 5.0


class GovernedLog:
    """Looks at the governed topic without reading it."""

    def __init__(self, kafka: KafkaSettings) -> None:
        self._consumer = Consumer(
            kafka.config(group_id=f"{LOOK_GROUPS}rewards", enable_auto_commit=False)
        )
        self._topic = topic("events_governed").name
        self._ends: dict[int, int] = {}

    def is_empty(self) -> bool:
        """Return True while no record has been seen; also when the broker does not answer."""
        self.has_grown()
        return not any(self._ends.values())

    def has_grown(self) -> bool:
        """Return whether there are records that the last call had not seen.

        False when the broker does not answer.
        """
        before = self._ends
        try:
            known = self._consumer.list_topics(self._topic, _TIMEOUT_S).topics[self._topic]
            self._ends = {
                number: self._end(TopicPartition(self._topic, number))
                for number in known.partitions
            }
        except (KafkaException, KeyError):
            return False
        return self._ends != before

    def _end(self, partition: TopicPartition) -> int:
        offsets = self._consumer.get_watermark_offsets(partition, _TIMEOUT_S, cached=False)
        return 0 if offsets is None else offsets[1]
