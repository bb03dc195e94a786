"""`atdp learn` as the demo runs it: a process beside the traffic, whose events are noted."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from atdp.runtime import Home
from order_desk.errors import DemoError
from order_desk.settings import MODEL

_BEGIN_TIMEOUT_S = 300.0
_END_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NotedEvent:
    """One event of learning; `at_s` is the traffic's time."""

    at_s: float
    kind: str
    fields: Mapping[str, Any]

    @property
    def version(self) -> str | None:
        """The version that it concerns, if any."""
        version = self.fields.get("version")
        return None if version is None else str(version)


def in_words(event: NotedEvent) -> str:
    """Return an event as text for people."""
    given = event.fields
    match event.kind:
        case "gate":
            why = ", ".join(dict.fromkeys(given["reasons"])).replace("_", " ")
            predicted = given["predicted"]
            text = "" if predicted is None else f", predicted success {predicted:.1%}"
            return (
                f"gate: {given['verdict']} for {event.version} against {given['baseline']} "
                f"({why}){text}, {given['sessions']} rated sessions"
            )
        case "canary":
            return f"canary: {event.version} serves {given['share']:.0%} of new sessions"
        case "rolled back":
            return f"rolled back: {event.version}, because {given['reason']}"
        case _:
            return f"{event.kind}: {event.version}"


@dataclass(slots=True)
class LearningProcess:
    """The running process and what it has reported."""

    process: subprocess.Popen[str]
    clock: Callable[[], float]
    on_event: Callable[[NotedEvent], None]
    events: list[NotedEvent] = field(default_factory=list)

    def check(self) -> None:
        """Check that it runs.

        Raises:
            DemoError: it has ended.
        """
        if self.process.poll() is not None:
            raise DemoError(
                f"`atdp learn` ended with exit code {self.process.returncode}. "
                "See logs/learn.log in the demo's home."
            )

    def wait_until_begun(self) -> None:
        """Wait for its first event.

        Raises:
            DemoError: it ended, or took too long.
        """
        deadline_s = time.monotonic() + _BEGIN_TIMEOUT_S
        while not self.events:
            self.check()
            if time.monotonic() > deadline_s:
                raise DemoError(f"`atdp learn` did not begin in {_BEGIN_TIMEOUT_S:.0f} s.")
            time.sleep(0.05)

    def wait_for(self, kind: str, patience_s: float) -> None:
        """Wait for an event of a kind, and no longer than `patience_s`.

        Raises:
            DemoError: it ended.
        """
        deadline_s = time.monotonic() + patience_s
        while time.monotonic() < deadline_s and all(each.kind != kind for each in self.events):
            self.check()
            time.sleep(0.1)

    def read(self) -> None:
        """Note its events until it ends; runs in a thread."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            try:
                fields = json.loads(line)
            except ValueError:
                continue
            event = NotedEvent(at_s=self.clock(), kind=fields.pop("event"), fields=fields)
            self.events.append(event)
            self.on_event(event)


@contextmanager
def learning(
    home: Home,
    arguments: Sequence[str],
    *,
    clock: Callable[[], float],
    on_event: Callable[[NotedEvent], None],
) -> Iterator[LearningProcess]:
    """Run `atdp learn` until the end of the block; its trainer then has a checkpoint."""
    command = [sys.executable, "-m", "atdp.stack.cli", "learn", "--model", MODEL, "--json"]
    home.logs.mkdir(parents=True, exist_ok=True)
    with (home.logs / "learn.log").open("ab") as log:
        process = subprocess.Popen(
            [*command, *arguments],
            env={**os.environ, "ATDP_HOME": str(home.root)},
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    running = LearningProcess(process=process, clock=clock, on_event=on_event)
    reader = threading.Thread(target=running.read, name="learning-events", daemon=True)
    reader.start()
    try:
        yield running
    finally:
        process.terminate()
        _wait(process)
        reader.join(_END_TIMEOUT_S)
        if process.stdout is not None:
            process.stdout.close()


def _wait(process: subprocess.Popen[str]) -> None:
    deadline_s = time.monotonic() + _END_TIMEOUT_S
    try:
        process.wait(max(0.0, deadline_s - time.monotonic()))
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
