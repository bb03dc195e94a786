"""The chassis that every service process of the stack shares.

`run_http` pulls in uvicorn only when it is used.
"""

from typing import TYPE_CHECKING

from atdp.runtime.service.health import Check, Health, HealthServer
from atdp.runtime.service.logs import describe, setup_logging
from atdp.runtime.service.process import PARENT_PID, Service

if TYPE_CHECKING:
    from fastapi import FastAPI

__all__ = [
    "PARENT_PID",
    "Check",
    "Health",
    "HealthServer",
    "Service",
    "add_health_routes",
    "describe",
    "run_http",
    "setup_logging",
]


def run_http(service: Service, app: "FastAPI", *, drain_s: int = 10) -> None:
    """Serve `app` on 127.0.0.1 until `service.stop` (see `atdp.runtime.service.http`)."""
    from atdp.runtime.service.http import run_http as run

    run(service, app, drain_s=drain_s)


def add_health_routes(app: "FastAPI", health: Health) -> None:
    """`/healthz`, `/readyz`, `/metrics` of `health` on `app`."""
    from atdp.runtime.service.http import add_health_routes as add

    add(app, health)
