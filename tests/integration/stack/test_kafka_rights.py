"""The users and rights of the local broker, tried one by one on the real Apache Kafka."""

import json
import shutil
import socket
import struct
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from confluent_kafka.cimpl import NewTopic

from atdp.runtime import (
    Home,
    KafkaSettings,
    TopicsCheck,
    ensure_kafka_logins,
    load_kafka_login,
)
from atdp.schemas import LOOK_GROUPS, all_kafka_principals, all_topics
from atdp.stack.broker.kafka import KafkaBroker
from atdp.stack.kafka_rights.acl_bindings import add_rules, remove_rules
from atdp.stack.kafka_rights.acl_rules import AclRule
from atdp.stack.kafka_rights.cluster_rights import rights_problems, set_up_rights
from atdp.stack.topics import ensure_topics, missing_topics

pytestmark = pytest.mark.kafka

HOW_TO = Path(__file__).parents[3] / "docs/how-to/secure-a-deployment.md"
TIMEOUT_S = 60.0
OTHERS = sorted(name for name, each in all_kafka_principals().items() if not each.is_administrator)


class Cluster:
    """A broker of a home with its users; each client is one of a principal."""

    def __init__(self, home: Home, bootstrap: str) -> None:
        self.home = home
        self.bootstrap = bootstrap

    def settings(self, principal: str) -> KafkaSettings:
        return KafkaSettings(self.bootstrap, load_kafka_login(self.home, principal))

    def admin(self, principal: str) -> AdminClient:
        return AdminClient({**self.settings(principal).config(), "log_level": 0})

    def written(self, principal: str) -> set[str]:
        """Return the topics to which the principal could write a record."""
        # An idempotent producer gives up at once where it may write no topic at all.
        config = self.settings(principal).config(enable_idempotence=False, acks="all")
        producer, errors = Producer({**config, "log_level": 0}), dict[str, Any]()
        for each in all_topics().values():
            producer.produce(
                each.name,
                b"forged",
                key=b"forged",
                on_delivery=lambda error, message: errors.update({message.topic(): error}),
            )
        assert producer.flush(TIMEOUT_S) == 0
        refused = {name for name, error in errors.items() if error is not None}
        assert {errors[name].name() for name in refused} <= {"TOPIC_AUTHORIZATION_FAILED"}
        return errors.keys() - refused

    def read(self, principal: str) -> set[str]:
        """Return the topics from which the principal gets records, or the end of a partition."""
        config = self.settings(principal).config(
            group_id=f"{LOOK_GROUPS}test", enable_partition_eof=True, enable_auto_commit=False
        )
        consumer, answers = Consumer({**config, "log_level": 0}), dict[str, str | None]()
        try:
            # A consumer waits for ever for a topic that it cannot see, without an error.
            visible = consumer.list_topics(timeout=TIMEOUT_S).topics
            consumer.assign([TopicPartition(name, 0, OFFSET_BEGINNING) for name in visible])
            while answers.keys() < visible.keys():
                message = consumer.poll(TIMEOUT_S)
                assert message is not None, f"only {answers} gave an answer"
                error = message.error()
                if message.topic() is None:
                    assert error.name() == "GROUP_AUTHORIZATION_FAILED"
                    return set()
                answers.setdefault(message.topic(), None if error is None else error.name())
        finally:
            consumer.close()
        refused = {name for name, error in answers.items() if error not in {None, "_PARTITION_EOF"}}
        assert {answers[name] for name in refused} <= {"TOPIC_AUTHORIZATION_FAILED"}
        return answers.keys() - refused


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    folder = Path(tempfile.mkdtemp(prefix="atdp-kafka-"))
    home = Home(folder)
    ensure_kafka_logins(home)
    login = load_kafka_login(home, "admin")
    broker = KafkaBroker(home.kafka, administrator=login)
    try:
        made = Cluster(home, broker.start())
        set_up_rights(home, made.settings("admin"))
        ensure_topics(made.settings("admin"), replication=1)
        yield made
    finally:
        broker.stop()
        shutil.rmtree(folder, ignore_errors=True)


def refusal(answer: Any) -> str | None:
    """Return the name of the error with which a request is refused, None when it is granted."""
    try:
        answer.result(TIMEOUT_S)
    except KafkaException as error:
        return str(error.args[0].name())
    return None


def refusal_to_move(answer: Any) -> str | None:
    """Return why offsets are not moved; who may see the group hears it for each partition."""
    refused = refusal(answer)
    if refused is None and (error := answer.result().topic_partitions[0].error) is not None:
        refused = str(error.name())
    return refused


def until(value: Callable[[], Any], expected: Any) -> None:
    """Wait for a change of rights or topics, which the broker knows after the controller."""
    deadline = time.monotonic() + TIMEOUT_S
    while (last := value()) != expected:
        assert time.monotonic() < deadline, last
        time.sleep(0.05)


@pytest.mark.parametrize("principal", OTHERS)
def test_a_principal_reads_and_writes_the_topics_of_the_table_and_no_others(
    cluster: Cluster, principal: str
) -> None:
    topics = all_topics().values()
    assert cluster.written(principal) == {each.name for each in topics if principal in each.writers}
    assert cluster.read(principal) == {each.name for each in topics if principal in each.readers}


@pytest.mark.parametrize("principal", OTHERS)
def test_nobody_but_the_administrator_creates_changes_or_deletes(
    cluster: Cluster, principal: str
) -> None:
    admin, audit = cluster.admin(principal), all_topics()["audit"].name
    setting = ConfigResource(ResourceType.TOPIC, audit)
    setting.add_incremental_config(
        ConfigEntry("retention.ms", "1", incremental_operation=AlterConfigOpType.SET)
    )
    place = TopicPartition(audit, 0, 1)
    password = UserScramCredentialUpsertion(
        "atdp-governance", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), b"mine"
    )
    refused = "TOPIC_AUTHORIZATION_FAILED"
    assert refusal(admin.delete_topics([audit])[audit]) == refused
    assert refusal(admin.create_topics([NewTopic("new", 1, 1)])["new"]) == refused
    # The client does not ask for the records of a topic that it cannot see.
    assert refusal(admin.delete_records([place])[place]) in {refused, "_NOENT"}
    assert refusal(admin.incremental_alter_configs([setting])[setting]) == refused
    refused = "CLUSTER_AUTHORIZATION_FAILED"
    (changed,) = admin.alter_user_scram_credentials([password]).values()
    assert refusal(changed) == refused
    with pytest.raises(KafkaException, match=refused):
        add_rules(
            admin, [AclRule(user=f"atdp-{principal}", kind="TOPIC", name="*", operation="ALL")]
        )


@pytest.mark.parametrize("principal", OTHERS)
def test_governance_alone_moves_its_offsets_and_opens_its_transactions(
    cluster: Cluster, principal: str
) -> None:
    producer = Producer(
        {**cluster.settings(principal).config(transactional_id="atdp-governance"), "log_level": 0}
    )
    raw = TopicPartition(all_topics()["events_raw"].name, 0, 0)
    admin = cluster.admin(principal)
    (moved,) = admin.alter_consumer_group_offsets(
        [ConsumerGroupTopicPartitions("atdp-governance", [raw])]
    ).values()
    if principal == "governance":
        producer.init_transactions(TIMEOUT_S)
        assert refusal_to_move(moved) is None
        return
    with pytest.raises(KafkaException, match="TRANSACTIONAL_ID_AUTHORIZATION_FAILED"):
        producer.init_transactions(TIMEOUT_S)
    assert refusal_to_move(moved) == "GROUP_AUTHORIZATION_FAILED"


def test_who_has_no_password_or_a_wrong_one_is_not_served(cluster: Cluster) -> None:
    login = load_kafka_login(cluster.home, "governance")
    for wrong in ({}, {**login, "sasl.password": "guessed"}):
        settings = KafkaSettings(cluster.bootstrap, wrong)
        with pytest.raises(KafkaException):
            AdminClient({**settings.config(), "log_level": 0}).list_topics(timeout=2)


def test_who_has_not_logged_in_yet_takes_no_memory_of_the_broker(cluster: Cluster) -> None:
    """A request of half a megabyte was kept free for each of any number of connections."""
    host, _, port = cluster.bootstrap.partition(":")
    with socket.create_connection((host, int(port)), TIMEOUT_S) as connection:
        connection.sendall(struct.pack(">i", 100_000) + b"x")
        assert connection.recv(1) == b""


def test_a_rule_too_many_and_a_rule_too_few_are_named_with_their_commands_and_set_right(
    cluster: Cluster,
) -> None:
    admin, operator = cluster.admin("admin"), cluster.settings("operator")

    def problems() -> list[str]:
        return [
            problem.partition("--command-config admin.properties ")[2]
            for problem in rights_problems(cluster.home, {}, operator)
        ]

    until(problems, [])
    raw = all_topics()["events_raw"].name
    add_rules(admin, [AclRule(user="intern", kind="TOPIC", name="*", operation="WRITE")])
    remove_rules(admin, [AclRule(user="atdp-governance", kind="TOPIC", name=raw, operation="READ")])
    until(
        problems,
        [
            f"--add --allow-principal User:atdp-governance --operation Read --topic {raw}",
            "--remove --force --allow-principal User:intern --operation Write --topic '*'",
        ],
    )
    set_up_rights(cluster.home, cluster.settings("admin"))
    until(problems, [])


def test_who_may_not_read_the_rules_hears_that_they_are_unknown(cluster: Cluster) -> None:
    (problem,) = rights_problems(cluster.home, {}, cluster.settings("gateway"))
    assert problem.startswith("it is unknown who may read and write the topics")


def test_a_deleted_topic_is_named_by_status_and_readiness_until_it_is_there_again(
    cluster: Cluster,
) -> None:
    audit = all_topics()["audit"].name
    operator, governance = cluster.settings("operator"), cluster.settings("governance")

    roles = [each.name for each in all_topics().values() if "governance" in each.writers]
    check = TopicsCheck(governance, roles, period_s=0.0)

    def ready() -> bool:
        return check() is None

    assert missing_topics(operator) == []
    admin = cluster.admin("admin")
    admin.delete_topics([audit])[audit].result(TIMEOUT_S)
    until(ready, False)
    until(lambda: [audit in each for each in missing_topics(operator)], [True])
    ensure_topics(cluster.settings("admin"), replication=1)
    until(ready, True)
    assert missing_topics(operator) == []


def test_the_example_of_the_how_to_sends_as_an_agent(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    block = HOW_TO.read_text("utf-8").partition("```python\n")[2].partition("```")[0]
    cluster.home.run.mkdir(exist_ok=True)
    cluster.home.endpoints_file.write_text(json.dumps({"kafka": cluster.bootstrap}))
    (tmp_path / ".atdp").symlink_to(cluster.home.root)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ATDP_API_KEY", "atdp_0123456789ab_not-a-real-secret")
    exec(block, {})
