"""Topics as defined in `atdp.schemas`, brought into being on a broker or compared with what is there.

Missing topics are created. An existing topic is never changed: fewer or more partitions would break
the order per key, and a cluster's operators own its configuration. What differs is reported.
"""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from atdp.runtime import KafkaSettings
from atdp.schemas import Topic, all_topics
from atdp.stack.errors import StackError

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

_TIMEOUT_S = 30.0


@dataclass(frozen=True, kw_only=True)
class Found:
    """A topic as it is on the broker."""

    partitions: int
    config: Mapping[str, str]


def differences(wanted: Topic, found: Found) -> list[str]:
    """Say how an existing topic differs from its definition, one sentence each."""
    said = []
    if found.partitions != wanted.partitions:
        said.append(
            f"{wanted.name} has {found.partitions} partitions, defined are {wanted.partitions}"
        )
    said += [
        f"{wanted.name} has {key}={found.config.get(key)}, defined is {value}"
        for key, value in wanted.config.items()
        if found.config.get(key) != value
    ]
    return said


def ensure_topics(settings: KafkaSettings, *, replication: int) -> list[str]:
    """Create what is missing, wait until the brokers know it, and say what differs.

    `replication` -1 leaves the number of replicas to the cluster. Raises StackError when a topic
    cannot be created, or when raw and governed events differ in their number of partitions
    (governance keeps the partition number of a record).
    """
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    admin = AdminClient({**settings.config(), "log_level": 0})
    wanted = list(all_topics().values())
    try:
        existing = admin.list_topics(timeout=_TIMEOUT_S).topics
        missing = [topic for topic in wanted if topic.name not in existing]
        new = [
            NewTopic(topic.name, topic.partitions, replication, config=dict(topic.config))
            for topic in missing
        ]
        for name, future in (admin.create_topics(new) if new else {}).items():
            try:
                future.result(_TIMEOUT_S)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise StackError(
                        f"Cannot create topic {name}: {error.args[0].str()}"
                    ) from error
        _await_known(admin, [topic.name for topic in missing])
        old = [topic for topic in wanted if topic.name in existing]
        configs = _configs(admin, [topic.name for topic in old])
    except KafkaException as error:
        raise StackError(
            f"Cannot read or create topics at {settings.bootstrap}: {error.args[0].str()}. "
            "Check ATDP_KAFKA_BOOTSTRAP and the security settings, or the rights of this user."
        ) from error
    found = {
        topic.name: Found(
            partitions=len(existing[topic.name].partitions), config=configs[topic.name]
        )
        for topic in old
    }
    _check_partitions_agree(found)
    return [said for topic in old for said in differences(topic, found[topic.name])]


def _await_known(admin: "AdminClient", names: Iterable[str]) -> None:
    """A created topic is not yet in every broker's metadata; a client that asks too early sees none."""
    left, deadline = set(names), time.monotonic() + _TIMEOUT_S
    while left:
        known = admin.list_topics(timeout=_TIMEOUT_S).topics
        left = {
            name
            for name in left
            if name not in known or known[name].error or not known[name].partitions
        }
        if left and time.monotonic() > deadline:
            raise StackError(
                f"The brokers do not know the new topics {', '.join(sorted(left))} yet; start again."
            )


def _check_partitions_agree(found: Mapping[str, Found]) -> None:
    raw, governed = all_topics()["events_raw"], all_topics()["events_governed"]
    have = {
        topic.name: found[topic.name].partitions if topic.name in found else topic.partitions
        for topic in (raw, governed)
    }
    if len(set(have.values())) != 1:
        raise StackError(
            f"{raw.name} and {governed.name} must have the same number of partitions, they have {have}. "
            "Create the smaller one anew, or add partitions to it while nothing is written."
        )


def _configs(admin: "AdminClient", names: Iterable[str]) -> dict[str, dict[str, str]]:
    from confluent_kafka.admin import ConfigResource, ResourceType

    resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
    if not resources:
        return {}
    futures = admin.describe_configs(resources)
    return {
        resource.name: {key: str(entry.value) for key, entry in future.result(_TIMEOUT_S).items()}
        for resource, future in futures.items()
    }
