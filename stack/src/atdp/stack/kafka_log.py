"""The event log of `consumer_lag` on a real cluster."""

import contextlib
import uuid
from collections.abc import Iterator, Mapping
from typing import Self

from atdp.runtime import KafkaSettings, is_unreadable
from atdp.schemas import LOOK_GROUPS
from atdp.stack.errors import StackError


class KafkaLog:
    """Reads positions from a cluster; joins no group and commits nothing.

    Not thread-safe.
    """

    def __init__(self, settings: KafkaSettings, timeout_s: float = 15.0) -> None:
        """Connect at the first call; `timeout_s` limits each call."""
        from confluent_kafka import Consumer
        from confluent_kafka.admin import AdminClient

        self._settings = settings
        self.timeout_s = timeout_s
        quiet = {"log_level": 0}
        self._admin = AdminClient({**settings.config(), **quiet})
        self._consumer = Consumer(
            {
                **settings.config(),
                **quiet,
                # The client requires a group id. The group is never joined.
                "group.id": f"{LOOK_GROUPS}{uuid.uuid4().hex}",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
                "max.partition.fetch.bytes": 65536,  # one record is enough
                "fetch.wait.max.ms": 50,
            }
        )

    def close(self) -> None:
        """Disconnect."""
        self._consumer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ends(self, topic: str) -> Mapping[int, int]:
        """Return the offset after the last entry of every partition; empty without such a topic.

        Open transactions count: the end of what is committed would hide records whose commit
        markers have not been written yet.
        """
        from confluent_kafka import IsolationLevel, TopicPartition
        from confluent_kafka.admin import OffsetSpec

        with self._as_stack_error("read the ends of", topic):
            metadata = self._admin.list_topics(topic, timeout=self.timeout_s).topics[topic]
            if metadata.error is not None:
                return {}
            futures = self._admin.list_offsets(
                {
                    TopicPartition(topic, partition): OffsetSpec.latest()
                    for partition in metadata.partitions
                },
                isolation_level=IsolationLevel.READ_UNCOMMITTED,
                request_timeout=self.timeout_s,
            )
            return {
                entry.partition: future.result(self.timeout_s).offset
                for entry, future in futures.items()
            }

    def next_unread(self, topic: str, partition: int, at: int) -> int:
        """Return the offset of the first committed or undecided record at or after `at`.

        The records of a batch that cannot be read are undecided. A reader of committed records gets
        the event "end of partition" where the first open transaction begins. Returns the offset
        after the last entry when there is neither.
        """
        from confluent_kafka import KafkaError, TopicPartition

        with self._as_stack_error("read", topic):
            self._consumer.assign([TopicPartition(topic, partition, at)])
            try:
                message = self._consumer.poll(self.timeout_s)
                if message is None:
                    raise StackError(
                        f"{topic}[{partition}] gave no answer within {self.timeout_s:.0f} s. "
                        "Check the broker with `atdp status`."
                    )
                error = message.error()
                if error is None or error.code() == KafkaError._PARTITION_EOF:
                    return int(message.offset())
                if is_unreadable(error):
                    return at
                raise StackError(f"Cannot read {topic}[{partition}]: {error.str()}.")
            finally:
                self._consumer.unassign()

    def committed(self, group: str, topic: str) -> Mapping[int, int]:
        """Return the committed offsets of a consumer group; partitions without one are absent."""
        from confluent_kafka import ConsumerGroupTopicPartitions

        with self._as_stack_error(f"read the offsets of group {group} on", topic):
            future = self._admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[
                group
            ]
            committed = future.result(self.timeout_s).topic_partitions
            return {
                entry.partition: entry.offset
                for entry in committed
                if entry.topic == topic and entry.offset >= 0
            }

    @contextlib.contextmanager
    def _as_stack_error(self, action: str, topic: str) -> Iterator[None]:
        from confluent_kafka import KafkaException

        try:
            yield
        except KafkaException as error:
            raise StackError(
                f"Cannot {action} {topic} at {self._settings.bootstrap}: {error.args[0].str()}. "
                "Check with `atdp status` that the stack is up."
            ) from error
