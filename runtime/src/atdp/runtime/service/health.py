"""Health of one process, and a small HTTP server that shows it for workers without HTTP.

`/healthz` answers 200 while the process should keep running, `/readyz` 200 while it can do its
work, and `/metrics` gives the Prometheus registry. Both health answers list the failing checks by
name, and alarms: what a person has to look at although the process works. A check never shows event
data.
"""

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry, generate_latest

from atdp.runtime.service.logs import describe_error

Check = Callable[[], str | None]
"""Returns None when all is well, else one sentence that says what is wrong."""


@dataclass(slots=True)
class Health:
    """The state behind `/healthz` and `/readyz`. It is not ready until `ready()` is called."""

    service: str
    registry: CollectorRegistry = field(default_factory=lambda: REGISTRY, repr=False)
    _not_ready_reason: str | None = "starting"
    _live_checks: dict[str, Check] = field(default_factory=dict)
    _ready_checks: dict[str, Check] = field(default_factory=dict)
    _alarms: dict[str, Check] = field(default_factory=dict)

    def ready(self) -> None:
        """Declare the process able to work."""
        self._not_ready_reason = None

    def not_ready(self, reason: str) -> None:
        """Declare the process unable to work for now, with the reason."""
        self._not_ready_reason = reason

    def add_live_check(self, name: str, check: Check) -> None:
        """Add a check of `/healthz`; the supervisor restarts a process when one fails."""
        self._live_checks[name] = check

    def add_ready_check(self, name: str, check: Check) -> None:
        """Add a check of `/readyz`; one that fails means: running, but unable to work now."""
        self._ready_checks[name] = check

    def add_alarm(self, name: str, check: Check) -> None:
        """Add a check whose problem both answers show, without a change of their status.

        For what others can cause, such as forged records: it must not stop the process.
        """
        self._alarms[name] = check

    def live(self) -> tuple[int, dict[str, object]]:
        """Return HTTP status and body of `/healthz`."""
        return self._answer(_failing(self._live_checks))

    def readiness(self) -> tuple[int, dict[str, object]]:
        """Return HTTP status and body of `/readyz`."""
        failing = _failing(self._ready_checks)
        if self._not_ready_reason is not None:
            failing["state"] = self._not_ready_reason
        return self._answer(failing)

    def metrics(self) -> bytes:
        """Return the registry as Prometheus text."""
        return generate_latest(self.registry)

    def _answer(self, failing: dict[str, str]) -> tuple[int, dict[str, object]]:
        body: dict[str, object] = {
            "service": self.service,
            "status": "failing" if failing else "ok",
        }
        if failing:
            body["failing"] = failing
        if alarms := _failing(self._alarms):
            body["alarms"] = alarms
        return (503 if failing else 200), body


class HealthServer:
    """Serves `Health` on 127.0.0.1 from a daemon thread; `port` 0 picks a free one."""

    def __init__(self, health: Health, port: int = 0) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                path = self.path.partition("?")[0]
                if path == "/metrics":
                    self._send(200, health.metrics(), CONTENT_TYPE_LATEST)
                elif path in {"/healthz", "/readyz"}:
                    status, body = health.live() if path == "/healthz" else health.readiness()
                    self._send(status, json.dumps(body).encode(), "application/json")
                else:
                    self._send(
                        404,
                        b'{"error":"only /healthz, /readyz and /metrics are here"}',
                        "application/json",
                    )

            def _send(self, status: int, body: bytes, kind: str) -> None:
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_args: object) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.2,), name="health", daemon=True
        )
        self._thread.start()

    @property
    def url(self) -> str:
        """`http://127.0.0.1:<port>`."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        """Stop the server and close its socket."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _failing(checks: dict[str, Check]) -> dict[str, str]:
    """Run the checks and return the problems by name of check."""
    failing: dict[str, str] = {}
    for name, check in list(checks.items()):
        try:
            problem = check()
        except Exception as error:  # noqa: BLE001 - a check that raises is a failing check
            problem = f"the check itself failed: {describe_error(error)}"
        if problem is not None:
            failing[name] = problem
    return failing
