"""The frame of every service process: arguments, logs, stop, health, and not outliving the supervisor.

Use, in a worker without HTTP of its own::

    def main(argv: Sequence[str] | None = None) -> int:
        service = Service.start("governance", argv)
        with service.serving():                      # /healthz /readyz /metrics
            ...connect...
            service.health.ready()
            while not service.stop.is_set():
                ...one bounded unit of work, a second at most...
        return 0

and in an HTTP service `run_http(service, app)` (module `http`) instead of `serving()`.

SIGTERM and SIGINT set `service.stop`; whoever holds work drains it and returns. A second signal
changes nothing: the supervisor kills after its grace. When the supervisor itself dies, its children
see their parent change and stop too, so that nothing is left running. The check is by parent
process id because PR_SET_PDEATHSIG follows the *thread* that forked.
"""

import argparse
import json
import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from atdp.runtime.home import Home
from atdp.runtime.service.health import Health, HealthServer
from atdp.runtime.service.logs import setup_logging

PARENT_PID = "ATDP_PARENT_PID"
"""Set by the supervisor to its own pid: the service stops when that process is no longer its
parent."""

_log = logging.getLogger("atdp.service")


@dataclass
class Service:
    """One running service process."""

    name: str
    home: Home
    port: int
    options: argparse.Namespace
    health: Health
    stop: threading.Event = field(default_factory=threading.Event)
    """Set when the process should finish what it holds and return."""

    @classmethod
    def start(
        cls,
        name: str,
        argv: Sequence[str] | None = None,
        *,
        options: Callable[[argparse.ArgumentParser], None] | None = None,
        description: str | None = None,
    ) -> Self:
        """Parse `--home`, `--port`, `--name` and what `options` adds; set up logs, signals, the parent watch.

        Call it from the main thread of the process.
        """
        parser = argparse.ArgumentParser(prog=name, description=description)
        parser.add_argument(
            "--home",
            type=Path,
            default=None,
            help="home of the stack (default: $ATDP_HOME or ./.atdp)",
        )
        parser.add_argument(
            "--port", type=int, default=0, help="port on 127.0.0.1; 0 picks a free one"
        )
        parser.add_argument("--name", default=name, help="name in logs, status and endpoints")
        if options is not None:
            options(parser)
        chosen = parser.parse_args(argv)
        home = Home(chosen.home.expanduser().resolve()) if chosen.home else Home.from_env()
        setup_logging(chosen.name)
        service = cls(chosen.name, home, chosen.port, chosen, Health(chosen.name))
        service._catch_signals()
        service._watch_parent()
        return service

    @contextmanager
    def serving(self) -> Iterator[HealthServer]:
        """Serve health and metrics for the duration of the block, and announce the address."""
        server = HealthServer(self.health, self.port)
        self.announce(server.url)
        try:
            yield server
        finally:
            self.health.not_ready("stopping")
            server.close()
            _log.info("stopped")

    def announce(self, url: str) -> None:
        """Publish the address.

        In the log, and as `run/<name>.json` (`{"pid", "url"}`, replaced atomically).
        """
        self.home.run.mkdir(parents=True, exist_ok=True)
        target = self.home.run / f"{self.name}.json"
        partial = target.with_suffix(f".{os.getpid()}.tmp")
        partial.write_text(json.dumps({"pid": os.getpid(), "url": url}), "utf-8")
        partial.replace(target)
        _log.info("listening", extra={"url": url, "pid": os.getpid()})

    def _catch_signals(self) -> None:
        def on_signal(number: int, _frame: object) -> None:
            self.stop.set()
            _log.info("stopping", extra={"signal": signal.Signals(number).name})

        signal.signal(signal.SIGTERM, on_signal)
        signal.signal(signal.SIGINT, on_signal)

    def _watch_parent(self) -> None:
        text = os.environ.get(PARENT_PID, "")
        if not text.isdigit():
            return

        def watch(parent: int) -> None:
            while not self.stop.wait(_PARENT_POLL_S):
                if os.getppid() != parent:
                    _log.warning("the supervisor is gone, stopping", extra={"parent": parent})
                    self.stop.set()
            # Draining must end too: nobody is left who would kill a process that hangs.
            if os.getppid() != parent:
                threading.Event().wait(_ORPHAN_GRACE_S)
                os._exit(70)  # EX_SOFTWARE: the drain did not finish

        threading.Thread(target=watch, args=(int(text),), name="parent-watch", daemon=True).start()


# One getppid per second costs nothing and bounds how long an orphan lives.
_PARENT_POLL_S = 1.0
# Longer than any drain that works (a transaction, one Iceberg commit).
_ORPHAN_GRACE_S = 30.0
