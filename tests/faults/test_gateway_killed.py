"""Kill -9 the gateway while clients post: what it acknowledged is in the raw topic."""

import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
from confluent_kafka import Consumer, TopicPartition

from atdp.runtime.keys import KeyStore
from atdp.schemas import (
    Agent,
    Event,
    Gap,
    Source,
    TenantId,
    TrajectoryId,
    decode,
    event_to_json,
    header,
    new_event_id,
)
from atdp.stack.ports import choose_free_port

pytestmark = [pytest.mark.kafka, pytest.mark.faults, pytest.mark.timeout(600)]

CLIENTS = 4
BATCHES = 40
KILLS = 3
DEADLINE_S = 360.0  # several starts of a gateway; each takes half a minute on a busy machine


def start(home: Path, port: int, topic: str, bootstrap: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "atdp.gateway"),
            *("--home", str(home), "--port", str(port), "--topic", topic),
        ],
        env={**os.environ, "ATDP_KAFKA_BOOTSTRAP": bootstrap},
        stderr=subprocess.DEVNULL,
    )


def batch(client: int, number: int) -> list[Event]:
    return [
        Event(
            event_id=new_event_id(),
            tenant_id=TenantId("acme"),
            trajectory_id=TrajectoryId(f"t{client}"),
            producer_id=f"client-{client}",
            seq=number * 5 + index,
            occurred_at=datetime.now(UTC),
            agent=Agent(id="a"),
            source=Source(format="sdk"),
            body=Gap(code="test"),
        )
        for index in range(5)
    ]


def post(client: httpx.Client, key: str, events: list[Event], deadline: float) -> int:
    """Post until acknowledged, as the SDK does: each further try is marked.

    Returns the number of tries.
    """
    content = json.dumps({"events": [event_to_json(event) for event in events]})
    tries = 0
    while time.monotonic() < deadline:
        headers = {
            "Authorization": f"Bearer {key}",
            **({"X-ATDP-Redelivery": "1"} if tries else {}),
        }
        tries += 1
        try:
            answer = client.post("/v1/events", content=content, headers=headers)
        except httpx.TransportError:
            time.sleep(0.05)
            continue
        if answer.status_code == 200:
            assert answer.json()["accepted"] == len(events)
            return tries
        assert answer.status_code == 503, answer.text
    raise AssertionError("the gateway did not acknowledge within the deadline")


def read_all(bootstrap: str, topic: str) -> list[tuple[str, int, bool]]:
    """(event id, seq, redelivery flag) of every record of the topic."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "check", "enable.auto.commit": False}
    )
    try:
        partitions = [
            TopicPartition(topic, number, 0)
            for number in consumer.list_topics(topic, timeout=60).topics[topic].partitions
        ]
        ends = {
            part.partition: consumer.get_watermark_offsets(part, timeout=60)[1]
            for part in partitions
        }
        consumer.assign(partitions)
        found: list[tuple[str, int, bool]] = []
        deadline = time.monotonic() + DEADLINE_S
        while len(found) < sum(ends.values()):
            assert time.monotonic() < deadline, f"{len(found)} records of {ends}"
            for message in consumer.consume(500, timeout=1.0):
                assert message.error() is None
                event = decode(message.value())
                flag = header(message.headers(), "atdp-redelivery") == b"1"
                found.append((str(event.event_id), event.seq, flag))
        return found
    finally:
        consumer.close()


def test_what_a_killed_gateway_acknowledged_is_in_the_topic(
    tmp_path: Path, kafka_bootstrap: str, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(partitions=4)
    with KeyStore(tmp_path / "keys.sqlite") as keys:
        key, _ = keys.create("acme", "agent")
    # Below the ports of outgoing connections: while the gateway is down, nothing may take its port,
    # least of all its own clients.
    port = choose_free_port()
    url = f"http://127.0.0.1:{port}"
    deadline = time.monotonic() + DEADLINE_S
    acknowledged: dict[str, int] = {}
    retried = threading.Event()
    failures: list[BaseException] = []

    def client(number: int) -> None:
        try:
            with httpx.Client(base_url=url, timeout=60) as http:
                for each in range(BATCHES):
                    events = batch(number, each)
                    if post(http, key, events, deadline) > 1:
                        retried.set()
                    acknowledged.update({str(event.event_id): event.seq for event in events})
        except BaseException as error:
            failures.append(error)
            raise

    threads = [threading.Thread(target=client, args=(number,)) for number in range(CLIENTS)]
    total = CLIENTS * BATCHES * 5
    gateway = start(tmp_path, port, topic, kafka_bootstrap)
    try:
        for thread in threads:
            thread.start()
        for kill in range(1, KILLS + 1):
            while len(acknowledged) < total * kill // (KILLS + 1) and not failures:
                assert time.monotonic() < deadline
                time.sleep(0.002)
            gateway.kill()
            gateway.wait()
            gateway = start(tmp_path, port, topic, kafka_bootstrap)
        for thread in threads:
            thread.join()
    finally:
        gateway.kill()
        gateway.wait()
    assert not failures
    assert retried.is_set()  # the kills were felt, or this test shows nothing
    assert len(acknowledged) == total
    records = read_all(kafka_bootstrap, topic)
    assert {event_id for event_id, _, _ in records} >= acknowledged.keys()
    unmarked = Counter(event_id for event_id, _, flag in records if not flag)
    assert max(unmarked.values()) == 1
    for event_id, seq, _ in records:
        assert acknowledged[event_id] == seq
