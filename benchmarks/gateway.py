"""The gateway: events acknowledged per second, and the latency that the recording proxy adds.

Run: `python benchmarks/gateway.py [--json] [--seconds 5]`. The broker is that of
`ATDP_KAFKA_BOOTSTRAP`, else one is started. Gateway and engine are processes of their own; the
clients (threads, kept-alive connections, closed loop) share the machine with them. The engine
answers at once with canned tokens. It is called directly and through the proxy in turn; the
difference is the cost of recording, with the durable acknowledgement.
"""

import argparse
import contextlib
import http.client
import json
import os
import platform
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient, NewTopic

from atdp.runtime import KeyStore
from atdp.schemas import (
    Agent,
    Event,
    Message,
    Observation,
    Part,
    Source,
    TenantId,
    TrajectoryId,
    event_to_json,
    new_event_id,
)

EVENT_TEXT = "x" * 1500  # an event of about 2 KB, as in the peers' measurements
OUTPUT_TOKENS = 100
PROMPT_TOKENS = 1000


def engine_answers() -> tuple[bytes, bytes, bytes]:
    """Return the engine's answers: chat without recording fields, chat with them, `/model_info`."""
    ids = list(range(OUTPUT_TOKENS))
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": "y" * 400, "reasoning_content": None},
        "finish_reason": "stop",
        "matched_stop": None,
    }
    recorded = {
        "prompt_token_ids": list(range(PROMPT_TOKENS)),
        "response_token_ids": ids,
        "meta_info": {
            "weight_version": "v1",
            "weight_versions": [{"version": "v1", "start": 0, "end": OUTPUT_TOKENS}],
            "output_token_logprobs": [[-0.5, token, None] for token in ids],
        },
        "logprobs": {
            "content": [
                {"token": "y", "bytes": [121], "logprob": -0.5, "top_logprobs": []} for _ in ids
            ]
        },
    }
    rest = {
        "id": "a",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "usage": {
            "prompt_tokens": PROMPT_TOKENS,
            "completion_tokens": OUTPUT_TOKENS,
            "total_tokens": 0,
        },
    }
    plain = json.dumps({**rest, "choices": [{**choice, "logprobs": None}]}).encode()
    full = json.dumps({**rest, "choices": [{**choice, **recorded}]}).encode()
    info = json.dumps(
        {"weight_version": "v1", "tokenizer_hash": "f" * 64, "template_hash": "e" * 64}
    ).encode()

    return plain, full, info


def serve_engine() -> None:
    """Serve canned SGLang answers (child process; prints its port)."""
    import uvicorn

    plain, full, info = engine_answers()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        chat = full if b"return_meta_info" in body else plain
        answer = info if scope["path"] == "/model_info" else chat
        length = str(len(answer)).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", length)]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": answer})

    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    sys.stdout.write(f"{listener.getsockname()[1]}\n")
    sys.stdout.flush()
    uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False, lifespan="off")).run(
        [listener]
    )


@contextlib.contextmanager
def broker() -> Iterator[str]:
    """Yield the address of the configured broker, or of one for this run."""
    if running := os.environ.get("ATDP_KAFKA_BOOTSTRAP"):
        yield running
        return
    from atdp.stack.broker.kafka import KafkaBroker

    folder = Path(tempfile.mkdtemp(prefix="atdp-bench-kafka-"))
    own = KafkaBroker(folder)
    try:
        yield own.start()
    finally:
        own.stop()
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def child(command: list[str], **environment: str) -> Iterator[subprocess.Popen[str]]:
    """Start a process that ends with the block."""
    process = subprocess.Popen(
        command,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        yield process
    finally:
        process.terminate()
        process.wait(30)
        assert process.stdout is not None
        process.stdout.close()


class Client:
    """One kept-alive connection."""

    def __init__(self, url: str, key: str) -> None:
        host, _, port = url.removeprefix("http://").partition(":")
        self._connection = http.client.HTTPConnection(host, int(port), timeout=60)
        self._connection.connect()
        self._connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}

    def post(self, path: str, body: bytes, **headers: str) -> float:
        """Return the seconds from the request to the complete answer."""
        began = time.perf_counter()
        self._connection.request("POST", path, body, {**self._headers, **headers})
        answer = self._connection.getresponse()
        answer.read()
        taken = time.perf_counter() - began
        if answer.status != 200:
            raise RuntimeError(f"HTTP {answer.status}")
        return taken

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def event(trajectory: str, seq: int) -> dict[str, Any]:
    """Return one event in its JSON form."""
    return event_to_json(
        Event(
            event_id=new_event_id(),
            tenant_id=TenantId("bench"),
            trajectory_id=TrajectoryId(trajectory),
            producer_id="bench",
            seq=seq,
            occurred_at=datetime.now(UTC),
            agent=Agent(id="bench"),
            source=Source(format="sdk"),
            body=Observation(messages=(Message(role="user", parts=(Part(text=EVENT_TEXT),)),)),
        )
    )


def closed_loop(
    clients: int, seconds: float, call: Callable[[int, int], float]
) -> tuple[list[float], float]:
    """Call `call(client, number)` from threads; returns the latencies and the elapsed time."""
    taken: list[list[float]] = [[] for _ in range(clients)]
    began = time.perf_counter()

    def loop(client: int) -> None:
        while time.perf_counter() - began < seconds:
            taken[client].append(call(client, len(taken[client])))

    threads = [threading.Thread(target=loop, args=(client,)) for client in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [each for one in taken for each in one], time.perf_counter() - began


def quantiles(latencies: list[float]) -> dict[str, float]:
    """Return p50 and p99 in milliseconds."""
    ordered = sorted(latencies)
    return {
        "p50_ms": round(statistics.median(ordered) * 1000, 3),
        "p99_ms": round(ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))] * 1000, 3),
    }


def measure_events(url: str, key: str, seconds: float) -> list[dict[str, Any]]:
    """Measure acknowledged events per second, by clients and batch size."""
    rows = []
    for clients, size in ((1, 1), (4, 1), (1, 100), (4, 100)):
        latencies, wall = post_loop(url, key, clients, size, seconds)
        rows.append(
            {
                "what": f"events, {clients} clients, {size} per request",
                "per_s": round(len(latencies) * size / wall),
                **quantiles(latencies),
            }
        )
    return rows


def post_loop(
    url: str, key: str, clients: int, size: int, seconds: float
) -> tuple[list[float], float]:
    """Post batches of `size` events from new connections, after a short warm-up."""
    connections = [Client(url, key) for _ in range(clients)]
    bodies = [
        json.dumps({"events": [event(f"t{client}", seq) for seq in range(size)]}).encode()
        for client in range(clients)
    ]

    def call(client: int, _number: int) -> float:
        return connections[client].post("/v1/events", bodies[client])

    closed_loop(clients, 0.5, call)
    measured = closed_loop(clients, seconds, call)
    for connection in connections:
        connection.close()
    return measured


def measure_proxy(
    gateway_url: str, engine_url: str, key: str, seconds: float
) -> list[dict[str, Any]]:
    """Measure a model call directly and through the proxy in turn, with one client and four."""
    body = json.dumps(
        {
            "model": "m",
            "messages": [{"role": "user", "content": "z" * 400}],
            "max_tokens": OUTPUT_TOKENS,
        }
    ).encode()
    rows = []
    for clients in (1, 4):
        results: dict[str, list[float]] = {"direct": [], "proxy": []}
        walls = {"direct": 0.0, "proxy": 0.0}
        for _ in range(4):
            for name, url in (("direct", engine_url), ("proxy", gateway_url)):
                latencies, wall = chat_loop(url, key, body, clients, seconds / 4)
                results[name] += latencies
                walls[name] += wall
        for name, latencies in results.items():
            rate = round(len(latencies) / walls[name])
            rows.append(
                {"what": f"chat, {clients} clients, {name}", "per_s": rate, **quantiles(latencies)}
            )
        direct, proxied = quantiles(results["direct"]), quantiles(results["proxy"])
        added = {name: round(proxied[name] - direct[name], 3) for name in direct}
        rows.append(
            {"what": f"chat, {clients} clients, added by the proxy", "per_s": None, **added}
        )
    return rows


def chat_loop(
    url: str, key: str, body: bytes, clients: int, seconds: float
) -> tuple[list[float], float]:
    """Make model calls from new connections, after a short warm-up; see `closed_loop`."""
    connections = [Client(url, key) for _ in range(clients)]

    def call(client: int, _number: int) -> float:
        session = {"X-ATDP-Session": uuid.uuid4().hex}
        return connections[client].post("/v1/chat/completions", body, **session)

    closed_loop(clients, 0.2, call)
    measured = closed_loop(clients, seconds, call)
    for connection in connections:
        connection.close()
    return measured


def run(seconds: float) -> dict[str, Any]:
    """Return all measurements."""
    home = Path(tempfile.mkdtemp(prefix="atdp-bench-"))
    topic = f"bench.{uuid.uuid4().hex}"
    with KeyStore(home / "keys.sqlite") as keys:
        key, _ = keys.create("bench", "agent")
    try:
        with broker() as bootstrap, child([sys.executable, __file__, "--engine"]) as served:
            admin = AdminClient({"bootstrap.servers": bootstrap})
            admin.create_topics([NewTopic(topic, num_partitions=4, replication_factor=1)])[
                topic
            ].result(30)
            assert served.stdout is not None
            engine_url = f"http://127.0.0.1:{served.stdout.readline().strip()}"
            command = [
                *(sys.executable, "-m", "atdp.gateway"),
                *("--home", str(home), "--topic", topic, "--engine", engine_url),
            ]
            with child(command, ATDP_KAFKA_BOOTSTRAP=bootstrap):
                gateway_url = wait_for(home / "run" / "gateway.json")
                rows = measure_events(gateway_url, key, seconds)
                rows += measure_proxy(gateway_url, engine_url, key, seconds)
            admin.delete_topics([topic])[topic].result(30)
    finally:
        shutil.rmtree(home, ignore_errors=True)
    return {
        "machine": f"{os.cpu_count()} cores, {platform.platform()}",
        "seconds": seconds,
        "rows": rows,
    }


def wait_for(file: Path) -> str:
    """Wait for the URL that a service publishes in `file`."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if file.exists():
            return str(json.loads(file.read_text())["url"])
        time.sleep(0.05)
    raise RuntimeError("the gateway did not start within 60 s")


def main() -> None:
    """Measure and print a table, or JSON with `--json`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON only")
    parser.add_argument("--seconds", type=float, default=5.0, help="duration of each measurement")
    parser.add_argument("--engine", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.engine:
        serve_engine()
        return
    result = run(arguments.seconds)
    if arguments.json:
        print(json.dumps(result, indent=1))
        return
    print(result["machine"])
    print(f"{'measurement':44} {'per s':>8} {'p50 ms':>9} {'p99 ms':>9}")
    for row in result["rows"]:
        rate = "" if row["per_s"] is None else str(row["per_s"])
        print(f"{row['what']:44} {rate:>8} {row['p50_ms']:>9} {row['p99_ms']:>9}")


if __name__ == "__main__":
    main()
