"""What the running stack says about itself, in `run/`: the lock, the endpoints, the state of every service.

`supervisor.lock` is held (flock) while a supervisor lives; the system releases it however the
supervisor ends, so a stale file is never mistaken for a running stack. Who asks whether one lives
takes the same lock, shared, for an instant; a supervisor that starts just then tries again for a
second. `stack.json` is replaced atomically at each change and read by `atdp status` and `atdp down`
without asking the supervisor.
"""

import fcntl
import json
import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

from atdp.runtime import Home
from atdp.stack.errors import AlreadyRunning, HomeUnusable
from atdp.stack.processes import ProcessId
from atdp.stack.restarts import Phase

_READERS_S = (
    1.0  # readers hold the lock for microseconds; longer only delays the word of a second `atdp up`
)


@dataclass(frozen=True, kw_only=True)
class ServiceEntry:
    """One service as last published. Times are seconds since the epoch.

    `pid` None while it does not run.
    """

    name: str
    phase: Phase
    since: float
    pid: int | None
    created: float
    port: int | None
    restarts: int
    last_exit_code: int | None
    reason: str
    log: str


@dataclass(frozen=True, kw_only=True)
class StackEntry:
    """The stack as last published. `up` turns true when everything has been ready once."""

    pid: int
    created: float
    up: bool
    services: tuple[ServiceEntry, ...]

    def serves(self) -> bool:
        """Tell whether it has come up and is not being stopped."""
        return self.up and not any(
            service.phase in {"stopping", "stopped"} for service in self.services
        )

    def processes(self) -> list[ProcessId]:
        """Every service process that was running, last started first."""
        return [
            ProcessId(pid=s.pid, created=s.created)
            for s in reversed(self.services)
            if s.pid is not None
        ]


class Ledger:
    """Reads and writes the run folder of one home."""

    def __init__(self, home: Home) -> None:
        """`home` need not exist yet."""
        self._home = home
        self._lock_file = home.run / "supervisor.lock"
        self._stack_file = home.run / "stack.json"

    def acquire(self, patience_s: float = _READERS_S) -> IO[str]:
        """Take the lock for the life of this process; raises AlreadyRunning. Keep what it returns.

        Tries for `patience_s`: what holds the lock may be a reader, not a supervisor.
        """
        try:
            self._home.run.mkdir(parents=True, exist_ok=True)
            handle = self._lock_file.open("a+", encoding="utf-8")
        except OSError as error:
            raise unwritable(self._home.root, error) from error
        deadline_s = time.monotonic() + patience_s
        while not _locked(handle, fcntl.LOCK_EX):
            if time.monotonic() >= deadline_s:
                handle.close()
                raise AlreadyRunning(
                    f"A stack of {self._home.root} is already running (see `atdp status`). "
                    "Stop it with `atdp down`, or set ATDP_HOME to another folder for a second stack."
                )
            time.sleep(0.01)
        handle.truncate(0)
        handle.write(str(os.getpid()))
        handle.flush()
        return handle

    def supervisor_pid(self) -> int | None:
        """Process id of the living supervisor; None when no supervisor holds the lock."""
        try:
            with self._lock_file.open("r", encoding="utf-8") as handle:
                if _locked(handle, fcntl.LOCK_SH):
                    return None
                text = handle.read().strip()
                return int(text) if text.isdigit() else None
        except FileNotFoundError:
            return None

    def publish(self, stack: StackEntry) -> None:
        """Replace what is known of the stack."""
        self._write(self._stack_file, asdict(stack))

    def publish_endpoints(self, endpoints: Mapping[str, str]) -> None:
        """Replace `endpoints.json`."""
        self._write(self._home.endpoints_file, dict(endpoints))

    def read(self) -> StackEntry | None:
        """What was last published, by a living or a dead supervisor; None when there is nothing to read."""
        try:
            data = json.loads(self._stack_file.read_text(encoding="utf-8"))
            services = tuple(ServiceEntry(**row) for row in data.pop("services"))
            return StackEntry(services=services, **data)
        except (FileNotFoundError, ValueError, TypeError, KeyError):
            return None

    def _write(self, file: Path, content: object) -> None:
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            partial = file.with_suffix(f".{os.getpid()}.partial")
            partial.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
            partial.replace(file)
        except OSError as error:
            raise unwritable(self._home.root, error) from error


def _locked(handle: IO[str], kind: int) -> bool:
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def unwritable(root: Path, error: OSError) -> HomeUnusable:
    """The error of a home that cannot be written."""
    return HomeUnusable(
        f"Cannot write the home {root}: {error.strerror or error}. "
        "Free some space, or set ATDP_HOME to a folder you may write."
    )
