"""Positions: up to which offset of its topic each table has come, kept in the Iceberg snapshots themselves.

The source position is part of the same atomic commit as the data, and is compared again at every
commit attempt (*compare-and-swap*): a batch that starts at offset `s` of a partition is accepted
only if the table stands at exactly `s`. That is a fencing token per partition which needs no lease,
clock or consumer-group generation: a zombie that wakes up after another writer took over finds the
position moved on, and is refused. (notes in docs/explanation; the idea is that of the Iceberg Kafka
Connect sink and of Redpanda's Iceberg topics, without their coordinator.)

Kafka's group offsets play no part in it; they are written for lag monitoring only.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot, ancestors_of

from atdp.lakehouse.errors import CommitRefused, PositionsLost, TopicChanged

PROPERTY = "atdp.offsets"
"""Key in the snapshot summary. Every commit of ours carries it, also those that add no rows."""


@dataclass(frozen=True, kw_only=True)
class TopicIdentity:
    """One incarnation of a topic: a topic deleted and created again has another id, another cluster has another id."""

    name: str
    cluster_id: str
    topic_id: str


@dataclass(frozen=True, kw_only=True)
class Positions:
    """Next offset by partition of one incarnation of a topic; a partition that is absent was never read."""

    topic: TopicIdentity
    next: Mapping[int, int] = field(default_factory=dict)

    def to_json(self) -> str:
        """As stored in the snapshot summary."""
        return json.dumps(
            {
                "topic": self.topic.name,
                "cluster_id": self.topic.cluster_id,
                "topic_id": self.topic.topic_id,
                "next": {str(partition): offset for partition, offset in sorted(self.next.items())},
            },
            separators=(",", ":"),
        )

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The inverse of `to_json`."""
        found = json.loads(text)
        return cls(
            topic=TopicIdentity(
                name=found["topic"], cluster_id=found["cluster_id"], topic_id=found["topic_id"]
            ),
            next={int(partition): int(offset) for partition, offset in found["next"].items()},
        )


@dataclass(frozen=True, kw_only=True)
class Advance:
    """What a batch claims: these partitions move from `start` (inclusive; `None`: never read) to `end` (exclusive)."""

    topic: TopicIdentity
    start: Mapping[int, int | None]
    end: Mapping[int, int]

    def applied_to(self, committed: Positions | None) -> Positions:
        """The positions after this batch.

        Raises:
            TopicChanged: the table holds offsets of another incarnation of the topic.
            CommitRefused: the table does not stand where the batch starts.
        """
        base = {} if committed is None else dict(committed.next)
        if committed is not None:
            require_same_topic(committed, self.topic)
        for partition, start in self.start.items():
            if base.get(partition) != start:
                raise CommitRefused(
                    f"{self.topic.name}[{partition}]: this batch starts at {start}, the table is at {base.get(partition)}; "
                    "another writer has taken the partition over"
                )
        return Positions(topic=self.topic, next={**base, **self.end})


def require_same_topic(committed: Positions, topic: TopicIdentity) -> None:
    """Refuse offsets of another incarnation.

    Raises:
        TopicChanged: with what to do.
    """
    if committed.topic != topic:
        raise TopicChanged(
            f"the table holds offsets of topic {committed.topic.name} (id {committed.topic.topic_id}, cluster "
            f"{committed.topic.cluster_id}), but the broker has {topic.name} (id {topic.topic_id}, cluster {topic.cluster_id}): "
            "the topic was created again or this is another cluster, so offsets mean other records. Point "
            "ATDP_KAFKA_BOOTSTRAP at the right cluster, or use a new catalog (ATDP_HOME or ATDP_CATALOG_URI) for the new topic"
        )


def positions_of(metadata: TableMetadata, snapshot_id: int | None = None) -> Positions | None:
    """The newest positions at or before a snapshot (default: the current one); `None` for an empty table.

    Raises:
        PositionsLost: there are rows, but no ancestor carries positions.
    """
    head = (
        metadata.current_snapshot() if snapshot_id is None else metadata.snapshot_by_id(snapshot_id)
    )
    if head is None:
        return None
    text = _newest_property(ancestors_of(head, metadata))
    if text is None:
        if _total_records(head) == 0:
            return None
        raise PositionsLost(
            f"the table at {metadata.location} has rows, but none of its snapshots says up to which offsets it holds the log "
            f"(summary property {PROPERTY}); starting again would repeat every row. Roll back to a snapshot that has it"
        )
    return Positions.from_json(text)


def _newest_property(snapshots: Iterable[Snapshot]) -> str | None:
    for snapshot in snapshots:
        if snapshot.summary is not None and (
            text := snapshot.summary.additional_properties.get(PROPERTY)
        ):
            return text
    return None


def _total_records(snapshot: Snapshot) -> int:
    if snapshot.summary is None:
        return 0
    return int(snapshot.summary.additional_properties.get("total-records", "0"))
