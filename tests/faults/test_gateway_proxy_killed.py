"""Kill -9 the gateway under talking agents.

Every answer that an agent saw is in the raw topic, once unless marked.
"""

import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import openai
import pytest
from confluent_kafka import Consumer, TopicPartition

from atdp.runtime.keys import KeyStore
from atdp.schemas import Action, Event, decode, header
from atdp.stack.ports import choose_free_port

pytestmark = [pytest.mark.kafka, pytest.mark.faults, pytest.mark.timeout(600)]

AGENTS = 3
CALLS = 40
KILLS = 2
DEADLINE_S = 360.0  # several starts of a gateway; each takes half a minute on a busy machine


@pytest.fixture
def engine() -> Iterator[str]:
    """An engine whose every answer is unique."""
    numbers = iter(range(1_000_000))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            message = {"role": "assistant", "content": f"answer {next(numbers)}"}
            choice = {
                "index": 0,
                "message": message,
                "finish_reason": "stop",
                "response_token_ids": [1, 2],
            }
            self.answer(
                {
                    "id": "a",
                    "object": "chat.completion",
                    "created": 1,
                    "model": "m",
                    "choices": [choice],
                }
            )

        def do_GET(self) -> None:
            self.answer({"weight_version": "v1", "tokenizer_hash": "f" * 64})

        def answer(self, document: dict[str, Any]) -> None:
            body = json.dumps(document).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_args: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


def read_all(bootstrap: str, topic: str) -> list[tuple[Event, bool]]:
    """Every event of the topic, with its redelivery flag."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "check", "enable.auto.commit": False}
    )
    try:
        numbers = consumer.list_topics(topic, timeout=60).topics[topic].partitions
        partitions = [TopicPartition(topic, number, 0) for number in numbers]
        expected = sum(consumer.get_watermark_offsets(part, timeout=60)[1] for part in partitions)
        consumer.assign(partitions)
        found: list[tuple[Event, bool]] = []
        deadline = time.monotonic() + DEADLINE_S
        while len(found) < expected:
            assert time.monotonic() < deadline, f"{len(found)} records of {expected}"
            for message in consumer.consume(500, timeout=1.0):
                assert message.error() is None
                found.append(
                    (decode(message.value()), header(message.headers(), "atdp-redelivery") == b"1")
                )
        return found
    finally:
        consumer.close()


def test_every_answer_that_an_agent_saw_is_in_the_topic(
    tmp_path: Path, engine: str, kafka_bootstrap: str, new_topic: Callable[..., str]
) -> None:
    # The port is below those of outgoing connections: while the gateway is down, nothing may take
    # it, least of all its own clients.
    topic, port = new_topic(partitions=4), choose_free_port()
    with KeyStore(tmp_path / "keys.sqlite") as keys:
        key, _ = keys.create("acme", "agent")
    deadline = time.monotonic() + DEADLINE_S
    seen: dict[str, str] = {}
    interrupted = threading.Event()
    failures: list[BaseException] = []

    def start() -> subprocess.Popen[bytes]:
        command = [
            *(sys.executable, "-m", "atdp.gateway", "--home", str(tmp_path)),
            *("--port", str(port), "--topic", topic, "--engine", engine),
        ]
        environment = {**os.environ, "ATDP_KAFKA_BOOTSTRAP": kafka_bootstrap}
        return subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)

    def talk(client: openai.OpenAI, session: str) -> None:
        messages: list[Any] = []
        for turn in range(CALLS):
            messages.append({"role": "user", "content": f"turn {turn}"})
            while True:
                assert time.monotonic() < deadline, "the gateway did not answer within the deadline"
                try:
                    answer = client.chat.completions.create(model="m", messages=messages[-4:])
                    break
                except (openai.APIConnectionError, openai.InternalServerError):
                    interrupted.set()
                    time.sleep(0.05)
            messages.append(answer.choices[0].message)
            seen[answer.choices[0].message.content or ""] = session

    def agent(number: int) -> None:
        session = f"s{number}"
        try:
            with openai.OpenAI(
                base_url=f"http://127.0.0.1:{port}/v1",
                api_key=key,
                default_headers={"X-ATDP-Session": session},
                max_retries=0,
            ) as client:
                talk(client, session)
        except BaseException as error:
            failures.append(error)
            raise

    threads = [threading.Thread(target=agent, args=(number,)) for number in range(AGENTS)]
    gateway = start()
    try:
        for thread in threads:
            thread.start()
        for kill in range(1, KILLS + 1):
            while len(seen) < AGENTS * CALLS * kill // (KILLS + 1) and not failures:
                assert time.monotonic() < deadline
                time.sleep(0.002)
            gateway.kill()
            gateway.wait()
            gateway = start()
        for thread in threads:
            thread.join()
    finally:
        gateway.kill()
        gateway.wait()
    assert not failures
    assert interrupted.is_set()  # the kills were felt, or this test shows nothing
    assert len(seen) == AGENTS * CALLS
    records = read_all(kafka_bootstrap, topic)
    recorded = {
        event.body.message.text: event.trajectory_id
        for event, _ in records
        if isinstance(event.body, Action) and event.body.message is not None
    }
    assert {text: recorded.get(text) for text in seen} == seen
    unmarked = Counter(event.event_id for event, marked in records if not marked)
    assert max(unmarked.values()) == 1
    starts = {event.event_id for event, _ in records if event.kind == "trajectory_started"}
    assert len(starts) == AGENTS
    by_producer: dict[tuple[str, str], list[int]] = {}
    for event, _ in records:
        by_producer.setdefault((event.trajectory_id, event.producer_id), []).append(event.seq)
    for seqs in by_producer.values():
        assert sorted(set(seqs)) == list(range(len(set(seqs))))
