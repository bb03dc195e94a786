"""The whole stack: how long an event takes from `emit` to an SQL answer, how long an import takes, what an idle stack holds.

    python benchmarks/end_to_end.py [--rate 200] [--seconds 60] [--text 1600] [--tau-bench FILE…] [--json]

A stack with a home of its own is started; its memory is read after it has been left alone. Then one
process emits `--rate` events per second (each with `--text` characters that the gate has never
seen, every second one with an e-mail address among them) through the SDK, while another asks the
lake again and again: an event is visible when the rows of a query with its id are there, so the
query's own time counts too. Where the time goes is told by the time stamps of the records on the
way: `sent` by the SDK, `governed` by the gate, `visible`. With `--tau-bench`, those files are
imported and timed until all of their trajectories have landed (`atdp import`, then `atdp wait`, as
a user runs them). Emitter, poller and stack share the machine.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

TEXT = "The order left the warehouse this morning and will arrive on Tuesday. " * 23
EVENTS_PER_TRAJECTORY = 20
POLL_S = 0.02
SETTLE_S = 20.0
PATIENCE_S = 120.0
TENANT = "bench"


def emit(bootstrap: str, key: str, spool: Path, rate: float, seconds: float, text: int) -> None:
    """Emit at a steady rate and print each event's id with the time (ns since the epoch) before its `emit` (a process of its own)."""
    from atdp.schemas import Generation, Usage
    from atdp.sdk import KafkaSender, Recorder

    recorder = Recorder(
        tenant=TENANT, api_key=key, sender=KafkaSender(bootstrap), spool_dir=spool, agent="bench"
    )
    generation = Generation(model="m", finish_reason="stop")
    emitted: list[tuple[str, int]] = []
    due = time.perf_counter()
    trajectory = recorder.trajectory(task_id="t").start()
    for number in range(int(rate * seconds)):
        due += 1 / rate
        time.sleep(max(0.0, due - time.perf_counter()))
        if number % EVENTS_PER_TRAJECTORY == EVENTS_PER_TRAJECTORY - 1:
            trajectory.end()
            trajectory = recorder.trajectory(task_id="t").start()
        at = time.time_ns()
        if number % 2:
            event_id = trajectory.generation(
                f"{number} {TEXT[:text]}",
                generation,
                usage=Usage(input_tokens=400, output_tokens=350),
            )
        else:
            event_id = trajectory.observe(
                [{"role": "user", "content": f"I am ada{number}@example.com. {TEXT[:text]}"}]
            )
        emitted.append((event_id, at))
    trajectory.end()
    report = recorder.close(60)
    print(json.dumps({"events": emitted, "delivered": report.complete}))


class Stack:
    """`atdp` on a home of the benchmark's own."""

    def __init__(self, home: Path) -> None:
        self.home = home
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith("ATDP_")
        }
        self.environ = {**inherited, "ATDP_HOME": str(home)}

    def atdp(self, *arguments: str) -> str:
        command = [sys.executable, "-m", "atdp.stack.cli", *arguments]
        done = subprocess.run(
            command, env=self.environ, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise SystemExit(
                f"atdp {' '.join(arguments)} ended with {done.returncode}: {done.stderr[-2000:]}"
            )
        return done.stdout

    def processes(self) -> dict[str, psutil.Process]:
        """The supervisor and the services."""
        from atdp.runtime.home import Home
        from atdp.stack.stack_state import StackState

        stack = StackState(Home(self.home)).read()
        assert stack is not None
        pids = {"supervisor": stack.pid} | {
            entry.name: entry.pid for entry in stack.services if entry.pid
        }
        return {name: psutil.Process(pid) for name, pid in pids.items()}

    def memory(self) -> dict[str, dict[str, float]]:
        """Resident (`rss`) and proportional (`pss`: shared pages divided) megabytes by service."""
        found = {}
        for name, process in self.processes().items():
            held = process.memory_full_info()
            found[name] = {"rss": held.rss / 1e6, "pss": held.pss / 1e6}
        found["all"] = {kind: sum(row[kind] for row in found.values()) for kind in ("rss", "pss")}
        return found

    def cpu_s(self) -> dict[str, float]:
        """CPU seconds that each service has used so far: unlike latencies, hardly distorted by what else runs."""
        times = {name: process.cpu_times() for name, process in self.processes().items()}
        return {name: used.user + used.system for name, used in times.items()}


@contextmanager
def running_stack() -> Iterator[Stack]:
    with tempfile.TemporaryDirectory(prefix="atdp-bench-", ignore_cleanup_errors=True) as folder:
        stack = Stack(Path(folder) / "home")
        stack.atdp("up", "--detach")
        try:
            yield stack
        finally:
            stack.atdp("down")


class Poller:
    """Asks for rows that it has not seen yet, whenever there is a new snapshot."""

    def __init__(self, home: Path) -> None:
        from atdp.lakehouse import open_lake

        self.lake = open_lake(home)
        self.snapshot: int | None = None
        self.read_up_to: dict[int, int] = {}
        self.visible: dict[str, int] = {}
        self.looks: list[float] = []
        self._last = time.perf_counter()

    def look(self) -> None:
        from atdp.lakehouse import connect

        current = self.lake.table("events").current_snapshot()
        if current is not None and current.snapshot_id != self.snapshot:
            self.snapshot = current.snapshot_id
            known = " OR ".join(
                [
                    *(
                        f"(kafka_partition = {part} AND kafka_offset > {at})"
                        for part, at in self.read_up_to.items()
                    ),
                    f"kafka_partition NOT IN ({', '.join(map(str, self.read_up_to)) or -1})",
                ]
            )
            with connect(lake=self.lake) as connection:
                rows = connection.sql(
                    f"SELECT event_id, kafka_partition, kafka_offset FROM events WHERE {known}"
                ).rows()
            now = time.time_ns()
            for event_id, partition, offset in rows:
                self.visible.setdefault(event_id, now)
                self.read_up_to[partition] = max(offset, self.read_up_to.get(partition, -1))
        self.looks.append(time.perf_counter() - self._last)
        self._last = time.perf_counter()
        time.sleep(POLL_S)


def latency(stack: Stack, rate: float, seconds: float, text: int) -> dict[str, Any]:
    from atdp.runtime.home import Home
    from atdp.runtime.keys import KeyStore

    home = Home(stack.home)
    bootstrap = home.endpoints()["kafka"]
    with KeyStore(home.keys_db) as keys:
        key = str(keys.create(TENANT, "agent")[0])
    poller = Poller(stack.home)
    connection = {"bootstrap": bootstrap, "key": key, "spool": str(home.spool)}
    options = connection | {"rate": rate, "seconds": seconds, "text": text}
    load, cpu_s = os.getloadavg()[0], stack.cpu_s()
    with tempfile.TemporaryFile("w+") as said:
        emitter = subprocess.Popen(
            [sys.executable, __file__, "--emit", json.dumps(options)],
            env=stack.environ,
            stdout=said,
        )
        while emitter.poll() is None:
            poller.look()
        said.seek(0)
        report = json.loads(said.read())
    emitted: dict[str, int] = dict(report["events"])
    deadline = time.monotonic() + PATIENCE_S
    while not emitted.keys() <= poller.visible.keys() and time.monotonic() < deadline:
        poller.look()
    used = {name: after - cpu_s[name] for name, after in stack.cpu_s().items()}
    stamps = {role: timestamps(bootstrap, role) for role in ("events_raw", "events_governed")}
    landed = [event_id for event_id in emitted if event_id in poller.visible]
    hops = {
        "emit → visible": [(poller.visible[i] - emitted[i]) / 1e9 for i in landed],
        "  emit → sent": [stamps["events_raw"][i] - emitted[i] / 1e9 for i in landed],
        "  sent → governed": [
            stamps["events_governed"][i] - stamps["events_raw"][i] for i in landed
        ],
        "  governed → visible": [
            poller.visible[i] / 1e9 - stamps["events_governed"][i] for i in landed
        ],
    }
    looks = sorted(poller.looks)
    return {
        "events": len(emitted),
        "per_s": rate,
        "text_chars": text,
        "landed": len(landed),
        "delivered": report["delivered"],
        "seconds": {name: quantiles(values) for name, values in hops.items()},
        "cpu_ms_per_event": {
            name: round(1000 * each / len(emitted), 2) for name, each in used.items()
        },
        "poll_ms": {
            "p50": 1000 * looks[len(looks) // 2],
            "p99": 1000 * looks[int(len(looks) * 0.99)],
        },
        "load_average": [load, os.getloadavg()[0]],
    }


def timestamps(bootstrap: str, role: Any) -> dict[str, float]:
    """Event id → when its record was produced (seconds since the epoch, to the millisecond)."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

    from atdp.schemas import decode, topic

    name = topic(role).name
    settings = {
        "group.id": uuid.uuid4().hex,
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
    }
    consumer = Consumer({"bootstrap.servers": bootstrap, "enable.auto.commit": False, **settings})
    found = {}
    try:
        left = set(consumer.list_topics(name, timeout=30).topics[name].partitions)
        consumer.assign([TopicPartition(name, partition, OFFSET_BEGINNING) for partition in left])
        while left:
            for message in consumer.consume(5000, 0.25):
                if (error := message.error()) is None:
                    found[str(decode(message.value()).event_id)] = message.timestamp()[1] / 1000
                elif error.code() == KafkaError._PARTITION_EOF:
                    left.discard(message.partition())
                else:
                    raise SystemExit(f"reading {name}: {error.str()}")
    finally:
        consumer.close()
    return found


def quantiles(values: list[float]) -> dict[str, float]:
    ordered = sorted(values)
    at = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
    return {name: round(ordered[int(len(ordered) * share)], 3) for name, share in at.items()} | {
        "max": round(ordered[-1], 3)
    }


def importing(stack: Stack, files: list[Path]) -> dict[str, Any]:
    from atdp.lakehouse import connect

    load = os.getloadavg()[0]
    began = time.perf_counter()
    report = json.loads(
        stack.atdp("import", "tau-bench", *map(str, files), "--tenant", "retail", "--json")
    )
    acknowledged = time.perf_counter()
    stack.atdp("wait", "--timeout", "600")
    landed = time.perf_counter()
    with connect(stack.home, tenant="retail") as connection:
        ((trajectories,),) = connection.sql("SELECT count(*) FROM trajectories").rows()
    return {
        "trajectories": report["imported"],
        "events": report["events"],
        "trajectories_in_sql": trajectories,
        "acknowledged_s": round(acknowledged - began, 1),
        "landed_s": round(landed - began, 1),
        "load_average": [load, os.getloadavg()[0]],
    }


def run(rate: float, seconds: float, text: int, files: list[Path]) -> dict[str, Any]:
    with running_stack() as stack:
        time.sleep(SETTLE_S)
        result: dict[str, Any] = {
            "machine": f"{os.cpu_count()} cores, {psutil.virtual_memory().total / 2**30:.0f} GiB, {platform.system()}, Python "
            + platform.python_version(),
            "idle_mb": stack.memory(),
            "latency": latency(stack, rate, seconds, text),
        }
        if files:
            result["import"] = importing(stack, files)
        result["after_work_mb"] = stack.memory()
    return result


def show(result: dict[str, Any]) -> None:
    print(result["machine"])
    print(f"\n{'memory, MB':24}{'idle rss':>10}{'idle pss':>10}{'rss after work':>16}")
    for name, held in result["idle_mb"].items():
        after = result["after_work_mb"].get(name, {"rss": 0.0})
        print(f"{name:24}{held['rss']:10.0f}{held['pss']:10.0f}{after['rss']:16.0f}")
    found = result["latency"]
    loads = " to ".join(f"{load:.1f}" for load in found["load_average"])
    counts = f"{found['landed']} of {found['events']} events of {found['text_chars']} characters"
    print(f"\n{counts} landed at {found['per_s']:g}/s; load average {loads}")
    print(f"polled every {found['poll_ms']['p50']:.0f} ms (p99 {found['poll_ms']['p99']:.0f})")
    print(f"{'seconds':24}{'p50':>10}{'p95':>10}{'p99':>10}{'max':>10}")
    for name, row in found["seconds"].items():
        print(f"{name:24}" + "".join(f"{row[key]:10.3f}" for key in ("p50", "p95", "p99", "max")))
    print(
        "CPU ms per event: "
        + ", ".join(f"{name} {each:g}" for name, each in found["cpu_ms_per_event"].items())
    )
    if "import" in result:
        done = result["import"]
        loads = " to ".join(f"{load:.1f}" for load in done["load_average"])
        print(
            f"\nimport of {done['trajectories']} trajectories ({done['events']} events): acknowledged after {done['acknowledged_s']} s, "
            f"all landed after {done['landed_s']} s ({done['trajectories_in_sql']} trajectories in SQL); load average {loads}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rate", type=float, default=200.0, help="events per second")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to emit")
    parser.add_argument(
        "--text", type=int, default=1600, help="characters of text in an event, at most 1600"
    )
    parser.add_argument(
        "--tau-bench",
        nargs="+",
        type=Path,
        default=[],
        metavar="FILE",
        help="tau-bench result files to import",
    )
    parser.add_argument("--json", action="store_true", help="print JSON only")
    parser.add_argument("--emit", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.emit:
        emit(**(options.emit | {"spool": Path(options.emit["spool"])}))
        return
    result = run(options.rate, options.seconds, options.text, options.tau_bench)
    if options.json:
        print(json.dumps(result, indent=1))
    else:
        show(result)


if __name__ == "__main__":
    main()
