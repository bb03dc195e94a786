"""`GET` and `PUT /v1/routes`: the routing table of the engines."""

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from atdp.gateway.engine_routes import Routes
from atdp.gateway.request_body import read_object
from atdp.gateway.state import state_of
from atdp.runtime import authenticate

router = APIRouter()


@router.get("/v1/routes")
async def get_routes(request: Request) -> JSONResponse:
    """Return the current routes."""
    gateway = state_of(request)
    authenticate(request, gateway.keys, "route")
    return JSONResponse(gateway.routes.current.to_json())


@router.put("/v1/routes")
async def put_routes(request: Request) -> JSONResponse:
    """Replace the routes.

    `{"stable": {"url", "version"}, "canary": {"url", "version", "share", "salt"} | null}`.
    """
    gateway = state_of(request)
    authenticate(request, gateway.keys, "route")
    body = await read_object(request, gateway.settings.max_body_bytes)
    gateway.routes.replace(Routes.from_json(body))
    return JSONResponse(gateway.routes.current.to_json())
