"""Settings of the worker, read once at its entry point."""

from collections.abc import Mapping
from dataclasses import dataclass

from atdp.runtime import KafkaSettings, KafkaValue
from atdp.schemas import TopicRole, topic

GROUP = "atdp-governance"


@dataclass(frozen=True, kw_only=True)
class StageSettings:
    """How one worker talks to Kafka."""

    kafka: KafkaSettings
    topic_prefix: str = ""
    """Put before every topic name, the group and the transactional id: several stacks on one
    cluster."""
    batch_records: int = 2_000
    """Most records in one transaction. More would raise the latency of the first; fewer would spend
    more time committing."""
    batch_s: float = 10.0
    """A transaction that has taken so long is committed with what is governed; the rest is read
    again. Records that are slow to scan would otherwise outlast the transaction, which would be
    repeated for ever."""
    batch_bytes: int = 64_000_000
    """Likewise for bytes written: they wait in the producer's memory until the commit."""
    batch_wait_s: float = 0.1
    """Longest wait for a batch to fill."""
    session_timeout_ms: int = 10_000
    """After so long without a heartbeat a frozen worker's partitions go to another one."""
    commit_timeout_s: float = 30.0

    def topic(self, role: TopicRole) -> str:
        """The name of a topic on this cluster."""
        return self.topic_prefix + topic(role).name

    @property
    def transactional_id(self) -> str:
        """Stable, so that a worker that starts fences the one before it."""
        return f"{self.topic_prefix}{GROUP}"

    def consumer(self) -> Mapping[str, KafkaValue]:
        """Properties of the consumer: committed records only, offsets committed by transactions only."""
        return {
            **self.kafka.config(),
            "group.id": f"{self.topic_prefix}{GROUP}",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": self.session_timeout_ms,
            "heartbeat.interval.ms": min(3_000, self.session_timeout_ms // 3),
            "fetch.wait.max.ms": 50,
            "queued.max.messages.kbytes": 16_384,
        }

    def producer(self) -> Mapping[str, KafkaValue]:
        """Properties of the transactional producer."""
        return {
            **self.kafka.config(),
            "transactional.id": self.transactional_id,
            "enable.idempotence": True,
            "compression.type": "zstd",
            "linger.ms": 5,
            # A batch, the slowest record that the gate lets itself govern, and the commit, on a
            # machine that is busy with other things.
            "transaction.timeout.ms": 180_000,
            "message.max.bytes": 9_437_184,
        }
