"""Running a FastAPI application as a service of the stack: loopback, known port, drain on SIGTERM."""

import asyncio
import contextlib
import logging
import socket
from collections.abc import Iterator

import uvicorn
from fastapi import FastAPI, Response
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST

from atdp.runtime.errors import SettingsError
from atdp.runtime.service.health import Health
from atdp.runtime.service.process import Service

_log = logging.getLogger("atdp.service")


def add_health_routes(app: FastAPI, health: Health) -> None:
    """`/healthz`, `/readyz` and `/metrics` of `health` on `app`."""

    @app.get("/healthz", include_in_schema=False)
    def healthz() -> JSONResponse:
        status, body = health.live()
        return JSONResponse(body, status)

    @app.get("/readyz", include_in_schema=False)
    def readyz() -> JSONResponse:
        status, body = health.readiness()
        return JSONResponse(body, status)

    @app.get("/metrics", include_in_schema=False)
    def metrics() -> Response:
        return Response(health.metrics(), media_type=CONTENT_TYPE_LATEST)


def run_http(service: Service, app: FastAPI, *, drain_s: int = 10) -> None:
    """Serve `app` on 127.0.0.1 until `service.stop`; requests in flight get `drain_s` seconds to finish.

    The application's own start-up (lifespan) says when it is ready, by `service.health.ready()`.

    Raises:
        SettingsError: the port is taken.
    """
    listener = _bind(service.port)
    host, port = listener.getsockname()
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=drain_s,
        timeout_keep_alive=75,
    )
    server = _Server(config)

    async def serve() -> None:
        stopper = asyncio.create_task(_stop_when_told(service, server))
        try:
            service.announce(f"http://{host}:{port}")
            await server.serve(sockets=[listener])
        finally:
            stopper.cancel()

    asyncio.run(serve())
    _log.info("stopped")


class _Server(uvicorn.Server):
    """Leaves signals to `Service`: uvicorn would raise them again after its shutdown."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def _stop_when_told(service: Service, server: uvicorn.Server) -> None:
    while not service.stop.is_set():  # noqa: ASYNC110 - set by a signal handler, outside the loop
        await asyncio.sleep(0.1)
    service.health.not_ready("stopping")
    server.should_exit = True


def _bind(port: int) -> socket.socket:
    # The protocol must be said: asyncio switches Nagle off (TCP_NODELAY) only on sockets that say
    # TCP, and an answer in two writes then waits 40 ms for the peer's delayed acknowledgement.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # Accepted sockets inherit it. asyncio sets it only on sockets made with an explicit protocol
    # number; without it every answer on a kept-alive connection waits 40 ms for the client's
    # delayed acknowledgement.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        listener.bind(("127.0.0.1", port))
        listener.listen(2048)  # from the announcement on, callers wait instead of being refused
    except OSError as error:
        listener.close()
        raise SettingsError(
            f"cannot listen on 127.0.0.1:{port}: {error.strerror}; choose another port, or 0 for any free one"
        ) from error
    return listener
