"""Health of one process, and the small HTTP server that shows it for workers that have no HTTP of their own.

`/healthz` answers 200 while the process should live on, `/readyz` 200 while it can do its work,
`/metrics` gives the Prometheus registry. Both health answers list the failing checks by name; a
check never shows event data.
"""

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry, generate_latest

from atdp.runtime.service.logs import describe

Check = Callable[[], str | None]
"""None when all is well, else one sentence that says what is wrong."""


@dataclass
class Health:
    """What `/healthz` and `/readyz` answer. Not ready until `ready()` is called."""

    service: str
    registry: CollectorRegistry = field(default_factory=lambda: REGISTRY, repr=False)
    _why_not_ready: str | None = "starting"
    _live_checks: dict[str, Check] = field(default_factory=dict)
    _ready_checks: dict[str, Check] = field(default_factory=dict)

    def ready(self) -> None:
        """From now on able to work."""
        self._why_not_ready = None

    def not_ready(self, why: str) -> None:
        """For now unable to work, for the reason `why`."""
        self._why_not_ready = why

    def add_live_check(self, name: str, check: Check) -> None:
        """A failing live check asks the supervisor for a restart."""
        self._live_checks[name] = check

    def add_ready_check(self, name: str, check: Check) -> None:
        """A failing ready check says: alive, but cannot work now."""
        self._ready_checks[name] = check

    def live(self) -> tuple[int, dict[str, object]]:
        """HTTP status and body of `/healthz`."""
        return self._answer(_run(self._live_checks))

    def readiness(self) -> tuple[int, dict[str, object]]:
        """HTTP status and body of `/readyz`."""
        failing = _run(self._ready_checks)
        if self._why_not_ready is not None:
            failing["state"] = self._why_not_ready
        return self._answer(failing)

    def metrics(self) -> bytes:
        """Prometheus text of the registry."""
        return generate_latest(self.registry)

    def _answer(self, failing: dict[str, str]) -> tuple[int, dict[str, object]]:
        body: dict[str, object] = {
            "service": self.service,
            "status": "failing" if failing else "ok",
        }
        if failing:
            body["failing"] = failing
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
        """Stop answering."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _run(checks: dict[str, Check]) -> dict[str, str]:
    failing: dict[str, str] = {}
    for name, check in list(checks.items()):
        try:
            wrong = check()
        except Exception as error:  # noqa: BLE001 - a check that breaks is a failing check, not a broken endpoint
            wrong = f"the check itself failed: {describe(error)}"
        if wrong is not None:
            failing[name] = wrong
    return failing
