"""The cost of one `emit` to the agent, beside a bare append and OpenTelemetry.

Measured are the latency at a calm pace and the rate without a pause.

    python benchmarks/emit.py [--bootstrap HOST:PORT] [--otel-python PATH] [--json]

Each contender runs in a process of its own, one after the other, each with the same 2 KB of content
per event:

- `bare`: `json.dumps` and `os.write` to a file; nothing is delivered. The floor.
- `atdp memory | process | disk`: `Trajectory.generation` with the durability named, delivering to a
  real broker meanwhile.
- `otel`: a span with the same content, batch processor and OTLP/HTTP exporter to a loopback sink;
  only with the packages installed (`opentelemetry-sdk`, `opentelemetry-exporter-otlp-proto-http`),
  here or in the interpreter that `--otel-python` names, e.g. `uv venv /tmp/otel && uv pip install
  -p /tmp/otel opentelemetry-sdk opentelemetry-exporter-otlp-proto-http`.

Paced: 200 events to warm up, then 2,000 at 300/s. Unpaced: 20,000 events, the CPU time that each
took of the emitting thread (which a busy machine distorts least), and how many events the contender
lost.
"""

import argparse
import contextlib
import http.server
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from atdp.sdk import Durability

WARM_UP, PACED, PACE_PER_S, UNPACED = 200, 2_000, 300, 20_000
TEXT = (
    "The order left the warehouse this morning and will arrive on Tuesday. " * 23
)  # with the rest about 2 KB
CONTENDERS = ("bare", "atdp memory", "atdp process", "atdp disk", "otel")
Emit = Callable[[int], object]
Finish = Callable[[], int]


def bare(folder: Path, _target: str) -> tuple[Emit, Finish]:
    fd = os.open(folder / "events", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    written = 0

    def emit(number: int) -> None:
        nonlocal written
        event = {
            "id": f"{number:032x}",
            "time": time.time(),
            "kind": "generation",
            "text": f"{TEXT}{number}",
            "usage": {"in": 400, "out": 350},
            "model": "m",
        }
        os.write(fd, json.dumps(event).encode() + b"\n")
        written += 1

    return emit, lambda: written


def atdp(durability: "Durability") -> Callable[[Path, str], tuple[Emit, Finish]]:
    def contender(folder: Path, target: str) -> tuple[Emit, Finish]:
        from atdp.schemas import Generation, Usage
        from atdp.sdk import KafkaSender, Recorder

        bootstrap, topic = target.split("/")
        recorder = Recorder(
            tenant="bench",
            api_key="atdp_0123456789ab_benchmark",
            sender=KafkaSender(bootstrap, topic_name=topic),
            spool_dir=folder,
            durability=durability,
        )
        trajectory = recorder.trajectory().start()
        generation = Generation(model="m", served_model="m", finish_reason="stop")

        def emit(number: int) -> None:
            trajectory.generation(
                f"{TEXT}{number}", generation, usage=Usage(input_tokens=400, output_tokens=350)
            )

        return emit, lambda: recorder.flush(120).delivered - 1  # less the trajectory's start

    return contender


def otel(_folder: Path, target: str) -> tuple[Emit, Finish]:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # type: ignore[import-not-found,unused-ignore]
        OTLPSpanExporter,
    )
    from opentelemetry.sdk.trace import TracerProvider  # type: ignore[import-not-found,unused-ignore]
    from opentelemetry.sdk.trace.export import (  # type: ignore[import-not-found,unused-ignore]
        BatchSpanProcessor,
    )

    exported = 0

    class Counting(OTLPSpanExporter):  # type: ignore[misc,unused-ignore]
        def export(self, spans):  # type: ignore[no-untyped-def,unused-ignore]
            nonlocal exported
            result = super().export(spans)
            exported += len(spans) * (result.name == "SUCCESS")
            return result

    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(Counting(endpoint=f"{target}/v1/traces")))
    tracer = provider.get_tracer("bench")

    def emit(number: int) -> None:
        with tracer.start_as_current_span("chat") as span:
            span.set_attribute("gen_ai.request.model", "m")
            span.set_attribute("gen_ai.usage.input_tokens", 400)
            span.set_attribute("gen_ai.usage.output_tokens", 350)
            span.set_attribute("gen_ai.output.messages", f"{TEXT}{number}")

    def finish() -> int:
        provider.force_flush(120_000)
        provider.shutdown()
        return exported

    return emit, finish


def measure(contender: Callable[[Path, str], tuple[Emit, Finish]], target: str) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        emit, finish = contender(Path(folder), target)
        for number in range(WARM_UP):
            emit(number)
        latencies = []
        due = time.perf_counter()
        for number in range(PACED):
            due += 1 / PACE_PER_S
            time.sleep(max(0.0, due - time.perf_counter()))
            start = time.perf_counter_ns()
            emit(number)
            latencies.append((time.perf_counter_ns() - start) / 1000)
        start_s, start_cpu_s = time.perf_counter(), time.thread_time()
        for number in range(UNPACED):
            emit(number)
        emitting_s, cpu_s = time.perf_counter() - start_s, time.thread_time() - start_cpu_s
        kept = finish()
        latencies.sort()
        return {
            "p50_us": statistics.median(latencies),
            "p99_us": latencies[int(0.99 * len(latencies))],
            "max_us": latencies[-1],
            "cpu_us": 1e6 * cpu_s / UNPACED,
            "unpaced_per_s": UNPACED / emitting_s,
            "with_delivery_per_s": UNPACED / (time.perf_counter() - start_s),
            "lost": WARM_UP + PACED + UNPACED - kept,
        }


@contextlib.contextmanager
def http_sink() -> Iterator[str]:
    class Sink(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Sink)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@contextlib.contextmanager
def broker(bootstrap: str | None) -> Iterator[str]:
    """`bootstrap/topic` of a topic of this run's own."""
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    from atdp.stack.broker.kafka import KafkaBroker

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        own = None if bootstrap else KafkaBroker(Path(folder))
        try:
            where = bootstrap or (own.start() if own else "")
            topic = f"bench.emit.{time.time_ns()}"
            admin = AdminClient({"bootstrap.servers": where})
            admin.create_topics([NewTopic(topic, 4, 1)])[topic].result(60)
            yield f"{where}/{topic}"
            admin.delete_topics([topic])[topic].result(60)
        finally:
            if own:
                own.stop()


def run(contender: str, target: str, python: str) -> dict[str, float] | None:
    command = [python, __file__, "--contender", contender, "--target", target]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(
            f"{contender}: not measured: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr
        )
        return None
    result: dict[str, float] = json.loads(done.stdout)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bootstrap", help="a running broker; default: start one")
    parser.add_argument(
        "--otel-python", default=sys.executable, help="interpreter that has OpenTelemetry"
    )
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--contender", choices=CONTENDERS, help=argparse.SUPPRESS)
    parser.add_argument("--target", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.contender:
        contenders = {"bare": bare, "otel": otel} | {
            f"atdp {d}": atdp(d) for d in ("memory", "process", "disk")
        }
        print(json.dumps(measure(contenders[options.contender], options.target)))
        return
    with broker(options.bootstrap) as kafka, http_sink() as sink:
        results = {
            name: run(
                name,
                sink if name == "otel" else kafka,
                options.otel_python if name == "otel" else sys.executable,
            )
            for name in CONTENDERS
        }
    measured = {name: result for name, result in results.items() if result is not None}
    reference = measured.get("otel", measured["bare"])
    for result in measured.values():
        result["p50_ratio"] = result["p50_us"] / reference["p50_us"]
    if options.json:
        print(
            json.dumps(
                {"reference": "otel" if "otel" in measured else "bare", "contenders": measured},
                indent=2,
            )
        )
        return
    print(
        f"{'':14}{'p50 us':>9}{'p99 us':>9}{'max us':>9}{'cpu us':>8}{'emits/s':>10}"
        f"{'delivered/s':>13}{'lost':>7}{'p50 ratio':>11}"
    )
    for name, result in measured.items():
        print(
            f"{name:14}{result['p50_us']:9.0f}{result['p99_us']:9.0f}{result['max_us']:9.0f}{result['cpu_us']:8.0f}{result['unpaced_per_s']:10.0f}"
            f"{result['with_delivery_per_s']:13.0f}{result['lost']:7.0f}{result['p50_ratio']:11.2f}"
        )
    print(f"p50 ratio: to {'otel' if 'otel' in measured else 'bare'}")


if __name__ == "__main__":
    main()
