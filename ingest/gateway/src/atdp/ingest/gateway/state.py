"""What the routes of one gateway application share; made once by `create_app`, opened by its lifespan."""

from dataclasses import dataclass
from typing import cast

from fastapi import FastAPI, Request

from atdp.ingest.event_log import EventLog
from atdp.ingest.keys import KeyStore
from atdp.ingest.service import Health

from .emitter import Emitter
from .engine import Engines
from .metrics import GatewayMetrics
from .recording import TrajectoryRecorder
from .routes import RoutesFile
from .session_store import SessionStore
from .settings import GatewaySettings


@dataclass(frozen=True, kw_only=True)
class GatewayState:
    """An open gateway."""

    settings: GatewaySettings
    health: Health
    metrics: GatewayMetrics
    keys: KeyStore
    log: EventLog
    emitter: Emitter
    sessions: SessionStore
    recorder: TrajectoryRecorder
    routes: RoutesFile
    engines: Engines


def keep_state(app: FastAPI, state: GatewayState) -> None:
    """Attach the state to its application."""
    app.state.gateway = state


def state_of(request: Request) -> GatewayState:
    """The gateway that serves this request."""
    return cast("GatewayState", request.app.state.gateway)
