"""The gateway as a FastAPI application.

`create_app` only puts parts together; connections open in the lifespan, so that importing and
building do nothing. Further routers (SQL, console) are added by whoever composes the process.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager

from fastapi import FastAPI
from prometheus_client import CollectorRegistry

from atdp.gateway import events, proxy, sessions
from atdp.gateway.emitter import Emitter
from atdp.gateway.engine import Engines
from atdp.gateway.event_log import EventLog, KafkaEventLog
from atdp.gateway.metrics import GatewayMetrics
from atdp.gateway.routes import Engine, RoutesFile
from atdp.gateway.session_store import SessionStore
from atdp.gateway.settings import GatewaySettings
from atdp.gateway.state import GatewayState, keep_state
from atdp.gateway.trajectory_writer import TrajectoryRecorder
from atdp.runtime import (
    Health,
    HttpProblem,
    KafkaSettings,
    KeyStore,
    add_health_routes,
    http_problem_response,
)

OpenLog = Callable[[], Awaitable[EventLog]]


def create_app(
    settings: GatewaySettings, *, health: Health | None = None, open_log: OpenLog | None = None
) -> FastAPI:
    """The gateway of a home.

    `health` is the process's (by default one of its own, with a metrics registry of its own);
    `open_log` opens the event log inside the running loop (by default the raw topic of the home's
    broker).
    """
    own_health = health or Health("gateway", registry=CollectorRegistry())
    metrics = GatewayMetrics(own_health.registry)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            state = await _open(settings, own_health, metrics, open_log, stack)
            keep_state(app, state)
            own_health.add_ready_check("event-log", state.log.failure)
            own_health.ready()
            yield
            own_health.not_ready("stopping")

    app = FastAPI(title="ATDP gateway", lifespan=lifespan)
    app.add_exception_handler(HttpProblem, http_problem_response)
    add_health_routes(app, own_health)
    for part in (events, proxy, sessions):
        app.include_router(part.router)
    return app


async def _open(
    settings: GatewaySettings,
    health: Health,
    metrics: GatewayMetrics,
    open_log: OpenLog | None,
    stack: AsyncExitStack,
) -> GatewayState:
    keys = stack.enter_context(KeyStore(settings.home.keys_db))
    sessions_store = SessionStore(settings.home.gateway / "sessions.sqlite")
    stack.callback(sessions_store.close)
    log = await open_log() if open_log is not None else _kafka(settings, health)
    stack.push_async_callback(log.close)
    engines = Engines(settings.home, settings.engine_timeout_s)
    stack.push_async_callback(engines.close)
    emitter = Emitter(log, metrics, max_event_bytes=settings.max_event_bytes)
    return GatewayState(
        settings=settings,
        health=health,
        metrics=metrics,
        keys=keys,
        log=log,
        emitter=emitter,
        sessions=sessions_store,
        recorder=TrajectoryRecorder(
            emitter,
            sessions_store,
            metrics,
            max_live=settings.max_live_trajectories,
            idle_s=settings.idle_s,
        ),
        routes=RoutesFile(settings.home.routes_file, Engine(url=settings.engine)),
        engines=engines,
    )


def _kafka(settings: GatewaySettings, health: Health) -> EventLog:
    log = KafkaEventLog(
        settings.topic,
        KafkaSettings.from_env(settings.home).config(),
        delivery_timeout_s=settings.ack_timeout_s,
    )
    health.add_live_check("event-log", log.fatal)
    return log
