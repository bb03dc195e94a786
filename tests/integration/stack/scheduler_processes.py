"""Scheduler processes for tests, without a stack around them."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence

import httpx

from atdp.runtime import Home

DEADLINE_S = 120.0
SCHEDULER = ("-m", "atdp.stack.schedules.scheduler_process")


class SchedulerProcesses:
    """Scheduler processes, named, each of a home."""

    def __init__(self, home: Home, environ: Mapping[str, str] | None = None) -> None:
        self.home = home
        self.environ = {**os.environ, **(environ or {})}
        self.started: list[subprocess.Popen[bytes]] = []

    def start(
        self, name: str, program: Sequence[str] = SCHEDULER, **environ: str
    ) -> subprocess.Popen[bytes]:
        options = ["--home", str(self.home.root), "--name", name]
        with (self.home.root / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, *program, *options],
                stdout=log,
                stderr=log,
                env={**self.environ, **environ},
            )
        self.started.append(process)
        return process

    def kill(self) -> None:
        """End every process."""
        for process in self.started:
            process.kill()
            process.wait(60)

    def state(self, name: str) -> str | None:
        """Return `ok`, or why the process is not ready; None while it does not answer."""
        answer = self.get(name, "/readyz")
        if answer is None:
            return None
        return "ok" if answer.status_code == 200 else str(answer.json()["failing"]["state"])

    def metrics(self, name: str) -> str:
        answer = self.get(name, "/metrics")
        return "" if answer is None else answer.text

    def get(self, name: str, path: str) -> httpx.Response | None:
        try:
            url = json.loads((self.home.run / f"{name}.json").read_text())["url"]
            return httpx.get(url + path, trust_env=False, timeout=10)
        except (OSError, httpx.HTTPError):
            return None


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)
