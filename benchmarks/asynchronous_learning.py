"""Learning while serving compared with serving and learning in turns, on the same stack and work.

Both ways begin with the same small model that imitates mediocre clerks, serve the same customers
(each task once) and use `atdp learn` with the same settings. In turns: while customers are served,
the trainer is stopped (SIGSTOP); when enough sessions for a version have landed, no customer is
served until the version is published and evaluated. The result is the wall-clock time until the
success of the last sessions first reaches the target, for each way, and their ratio. Where the time
went is in `steps` (seconds at which each version was known, evaluated, tried and promoted) and in
`cpu_seconds` of every process.

Customers come at a fixed rate, `--arrivals-per-s`. Those who would come while versions are trained
in turns are not served later. At a rate that uses up the machine, serving slows learning down, and
in turns is then the faster way.

Run: `python benchmarks/asynchronous_learning.py --target 0.5`. AReaL (arXiv:2505.24298, table 1)
reports a ratio of up to 2.77 with many GPUs; on a machine whose cores both ways can use fully, at
most the idle time of the slower part can be gained.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import psutil
from online_learning import warm_start  # type: ignore[import-not-found]  # a script beside

from atdp.control import read_manifest
from atdp.lakehouse import connect
from atdp.runtime import Home
from atdp.stack import FIRST_POLICY, running_stack
from atdp.trainer.registry import Lineage, WeightRegistry
from order_desk.customers import CustomerStream
from order_desk.demo_platform import DemoPlatform, open_platform
from order_desk.settings import CONSENTING, MODEL
from order_desk.visits import Visit

WINDOW = 300
"""Sessions over which success is measured."""
BATCH = 96
"""Customers that are served together."""
CONCURRENCY = 24

MIXED_SESSIONS = """
WITH calls AS (
    SELECT tenant_id, coalesce(session_id, trajectory_id) AS session,
           unnest(action.generation.policy_versions).version AS version
    FROM events WHERE kind = 'action' AND action.type = 'generation'
)
SELECT tenant_id, session, list(DISTINCT version) AS versions
FROM calls GROUP BY ALL HAVING count(DISTINCT version) > 1
"""
"""Sessions whose calls were answered by more than one version."""


@dataclass(slots=True)
class LearningRun:
    """One way of learning, measured."""

    way: str
    wall_s: float = 0.0
    reached_s: float | None = None
    sessions: int = 0
    reached_sessions: int | None = None
    failed: int = 0
    promoted: int = 0
    rolled_back: int = 0
    mixed: int = 0
    success: list[tuple[float, int, float]] = field(default_factory=list)
    """Seconds, sessions, and success of the last `WINDOW` sessions."""
    steps: list[tuple[float, str, str]] = field(default_factory=list)
    """Seconds, step, and version of what `atdp learn` decided."""
    cpu_seconds: dict[str, float] = field(default_factory=dict)
    """By process, since its start."""


class Learner:
    """`atdp learn` in a process, and its events."""

    def __init__(self, home: Home, options: list[str]) -> None:
        self.events: list[dict[str, Any]] = []
        self.process = subprocess.Popen(
            [sys.executable, "-m", "atdp.stack.cli", "learn", "--model", MODEL, "--json", *options],
            env={**os.environ, "ATDP_HOME": str(home.root), "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            text=True,
        )
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.events.append({**json.loads(line), "at_s": time.monotonic()})
            print("   ", line.strip()[:240], flush=True)

    def count(self, kind: str) -> int:
        """Return the number of events of a kind so far."""
        return sum(event["event"] == kind for event in self.events)

    def steps(self, began: float) -> list[tuple[float, str, str]]:
        """Return the decisions about versions, with their seconds since `began`."""
        return [
            (round(event["at_s"] - began, 1), event["event"], event["version"])
            for event in self.events
            if event["event"] != "judgement" and "version" in event
        ]

    def signal_trainer(self, number: signal.Signals) -> None:
        """Send a signal to the trainer, if it runs."""
        for child in psutil.Process(self.process.pid).children():
            with suppress(psutil.Error):
                child.send_signal(number)

    def stop(self) -> None:
        """Stop it, with a checkpoint."""
        self.signal_trainer(signal.SIGCONT)
        self.process.send_signal(signal.SIGINT)
        self.process.wait(180)


def serve(platform: DemoPlatform, customers: CustomerStream, run: LearningRun, began: float,
          recent: deque[float], rate: float) -> None:  # fmt: skip
    """Serve one batch of customers, who come at `rate` per second, and count."""
    due = time.monotonic() + BATCH / rate
    visits = [
        Visit(tenant=CONSENTING, phase="use", order=order) for order in customers.orders(BATCH)
    ]
    results = platform.desk.serve(visits)
    run.failed += sum(bool(result.failure) for result in results)
    run.sessions += len(results)
    recent.extend(result.reward for result in results)
    seconds = time.monotonic() - began
    run.success.append((round(seconds, 1), run.sessions, sum(recent) / len(recent)))
    time.sleep(max(0.0, due - time.monotonic()))


def is_reached(recent: deque[float], target: float) -> bool:
    """Return True when the success of a whole window has reached the target."""
    return len(recent) == WINDOW and sum(recent) / WINDOW >= target


def in_turns(
    learner: Learner, platform: DemoPlatform, serve_batch: Callable[[], None], batches: int
) -> None:
    """Serve `batches` with the trainer stopped, then train without customers."""
    learner.signal_trainer(signal.SIGSTOP)
    for _ in range(batches):
        serve_batch()
    platform.wait_until_landed()
    if platform.flow.state().canary is not None:
        return  # sessions decide it
    seen = learner.count("gate") + learner.count("waiting") + learner.count("run")
    learner.signal_trainer(signal.SIGCONT)
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if learner.count("gate") + learner.count("waiting") + learner.count("run") > seen:
            return
        time.sleep(0.2)


def cpu_seconds() -> dict[str, float]:
    """Return the CPU seconds of this process and of all that it has started."""
    seconds: dict[str, float] = {}
    for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
        with suppress(psutil.Error):
            times, command = process.cpu_times(), process.cmdline()
            module = command[command.index("-m") + 1] if "-m" in command else command[0]
            name = command[command.index("--name") + 1] if "--name" in command else module
            seconds[name] = round(seconds.get(name, 0.0) + times.user + times.system, 1)
    return seconds


def measure(way: str, given: argparse.Namespace, model: Path) -> LearningRun:
    """Learn in one way until the target or the time limit."""
    home = Home(Path(mkdtemp(prefix=f"learn-{way}-", dir=given.folder)) / "home")
    home.root.mkdir(parents=True)
    run, recent = LearningRun(way=way), deque[float](maxlen=WINDOW)
    with (
        running_stack(home, {**os.environ, FIRST_POLICY: "demo"}, lambda _: None),
        open_platform(home, concurrency=CONCURRENCY) as platform,
    ):
        first = WeightRegistry(home.weights).publish(
            MODEL,
            lambda path: shutil.copytree(model, path, dirs_exist_ok=True),
            Lineage(run_id="warm", kind="sft", parent=None),
        )
        platform.flow.bootstrap(
            read_manifest(home.weights, MODEL, first.version), tenants=[CONSENTING], reason="warm"
        )
        customers = CustomerStream("use", given.seed)
        learner, began = Learner(home, given.options), time.monotonic()
        try:
            while time.monotonic() - began < given.limit_s:
                if way == "asynchronous":
                    serve(platform, customers, run, began, recent, given.arrivals_per_s)
                else:
                    in_turns(
                        learner,
                        platform,
                        lambda: serve(
                            platform, customers, run, began, recent, given.arrivals_per_s
                        ),
                        given.batches,
                    )
                if learner.process.poll() is not None:
                    raise SystemExit("atdp learn ended")
                if run.reached_s is None and is_reached(recent, given.target):
                    run.reached_s, run.reached_sessions = time.monotonic() - began, run.sessions
                    break
                print(f"  {way} {run.success[-1]}", flush=True)
        finally:
            run.steps, run.cpu_seconds = learner.steps(began), cpu_seconds()
            learner.stop()
        run.wall_s = time.monotonic() - began
        run.promoted, run.rolled_back = learner.count("promoted"), learner.count("rolled back")
        platform.wait_until_landed()
        with connect(lake=platform.lake) as connection:
            run.mixed = len(connection.sql(MIXED_SESSIONS).rows())
    return run


def main() -> None:
    """Measure both ways and print the ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path(mkdtemp(prefix="learning-")))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--target", type=float, default=0.5)
    parser.add_argument("--limit-s", type=float, default=600.0)
    parser.add_argument("--arrivals-per-s", type=float, default=8.0)
    parser.add_argument("--batches", type=int, default=3, help="batches of customers in one turn")
    parser.add_argument("--ways", nargs="+", default=["asynchronous", "in-turns"])
    given, options = parser.parse_known_args()
    given.options = options or [
        *("--compare", "running", "--publish-every", "4", "--trajectories-per-step", "16"),
        *("--learning-rate", "8e-4", "--epochs", "2", "--margin", "0.2", "--reward-window", "4"),
        *("--max-staleness", "8"),
    ]
    given.folder.mkdir(parents=True, exist_ok=True)
    model = warm_start(given.folder, given.seed)
    runs = [measure(way, given, model) for way in given.ways]
    reached = {run.way: run.reached_s for run in runs}
    slow, fast = reached.get("in-turns"), reached.get("asynchronous")
    ratio = None if slow is None or fast is None else slow / fast
    result = {"runs": [asdict(run) for run in runs], "ratio": ratio, "load": os.getloadavg()}
    print(json.dumps(result))


if __name__ == "__main__":
    main()
