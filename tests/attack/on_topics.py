"""Attacks on the topics that only services write, by whoever can connect to Kafka."""

from dataclasses import replace

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from atdp.lakehouse import sql_literal
from atdp.runtime import KafkaSettings
from atdp.schemas import (
    LOOK_GROUPS,
    Governance,
    TopicRole,
    decode_record,
    encode,
    encode_record,
    topic,
)

from .senders import RAW, Sent, event_of, rows_behind, said, send, signed, wait_until
from .target import RIVAL, Target, as_another_user

CARD = "4111 1111 1111 1111"
SERVICES_ONLY: tuple[TopicRole, ...] = (
    "events_governed",
    "events_quarantine",
    "quarantine_orders",
    "audit",
    "control",
    "learned_values",
    "register",
    "evaluations",
)
DENIED = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
}
"""The broker's own refusals; any other error shows only that nothing was tried."""


def connect_as_another_user(target: Target) -> str | None:
    """List the topics as another local user, who has no login."""
    bootstrap = target.address("kafka")

    def listed() -> int:
        client = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        try:
            return len(client.list_topics(timeout=10).topics)
        except KafkaException:
            return 0

    found = as_another_user(listed)
    return f"{found} topics" if found else None


def write_without_a_login(target: Target) -> str | None:
    """Write into the governed topic without a login."""
    record = _forged()
    errors = send(target, record, to=topic("events_governed").name, principal=None)
    return None if errors else "it was written"


def write_as_an_agent(target: Target) -> str | None:
    """Write into every topic of the services with the login of agents."""
    written = []
    for role in SERVICES_ONLY:
        errors = send(target, _forged(), to=topic(role).name, principal="agent")
        if [error.code() in DENIED for error in errors] != [True]:
            written.append(f"{role}: {errors or 'written'}")
    return "; ".join(written) or None


def delete_topics(target: Target) -> str | None:
    """Delete the topics of audit and quarantine with the login of agents, and of governance."""
    deleted = []
    for principal in ("agent", "governance"):
        settings = KafkaSettings.from_env(target.home, principal=principal)
        client = AdminClient({**settings.config(), "log_level": 0})
        names = [topic("audit").name, topic("events_quarantine").name]
        for name, done in client.delete_topics(names, operation_timeout=10).items():
            try:
                done.result(30)
            except KafkaException as error:
                if error.args[0].code() in DENIED:
                    continue
                raise
            deleted.append(name)
    return f"deleted: {', '.join(deleted)}" if deleted else None


def read_raw_events(target: Target) -> str | None:
    """Read raw events, of all tenants, with the login of agents."""
    settings = KafkaSettings.from_env(target.home, principal="agent")
    consumer = Consumer(
        {**settings.config(group_id="attack"), "auto.offset.reset": "earliest", "log_level": 0}
    )
    try:
        consumer.subscribe([RAW])
        message = consumer.poll(20)
    finally:
        consumer.close()
    if message is None:
        raise TimeoutError("the broker neither answered nor refused")
    error = message.error()
    return None if error is not None and error.code() in DENIED else f"read: {error or 'a record'}"


def forge_a_governed_event(target: Target) -> str | None:
    """Write a governed event of another tenant with a card number, with the right to write."""
    record = _forged()
    errors = send(target, record, to=topic("events_governed").name, principal="governance")
    if errors:
        return f"it could not be sent: {errors[0]}"
    rows = rows_behind(target, [record], target.rival)
    return f"{rows} rows landed" if rows else None


def change_an_audit_record(target: Target) -> str | None:
    """Write a genuine audit record with another reason, with the right to write there."""
    message = _first_record(target, topic("audit").name)
    name, audit = decode_record(message.value() or b"")
    value = encode_record(name, {**audit, "audit_id": "forged", "reason": "forged"})
    record = Sent(key=message.key() or b"", value=value, headers=message.headers() or ())
    errors = send(target, record, to=topic("audit").name, principal="governance")
    if errors:
        return f"it could not be sent: {errors[0]}"
    behind = signed(event_of(trajectory="behind"), target.agent)
    send(target, behind)
    wait_until(
        lambda: bool(
            target.rows(f"SELECT 1 FROM audit WHERE event_id = {sql_literal(behind.event_id)}")
        )
    )
    rows = target.rows("SELECT count(*) AS n FROM audit WHERE reason = 'forged'")
    return f"{rows[0]['n']} rows landed" if rows[0]["n"] else None


def _first_record(target: Target, name: str) -> Message:
    settings = KafkaSettings.from_env(target.home, principal="operator")
    consumer = Consumer(settings.config(group_id=f"{LOOK_GROUPS}attack", enable_auto_commit=False))
    try:
        consumer.assign([TopicPartition(name, 0, OFFSET_BEGINNING)])
        message = consumer.poll(30)
    finally:
        consumer.close()
    if message is None or message.error() is not None:
        raise RuntimeError(f"no record of {name} could be read")
    return message


def _forged() -> Sent:
    """Return a governed event that nobody governed."""
    stamp = Governance(
        policy_id="none",
        policy_version=1,
        policy_hash="0" * 64,
        purposes=("analytics", "train"),
        training_eligible=True,
    )
    event = replace(event_of(RIVAL, "forged", body=said(CARD)), governance=stamp)
    return Sent(key=event.key, value=encode(event), event_id=event.event_id)


ATTACKS = (
    connect_as_another_user,
    write_without_a_login,
    write_as_an_agent,
    delete_topics,
    read_raw_events,
    forge_a_governed_event,
    change_an_audit_record,
)
