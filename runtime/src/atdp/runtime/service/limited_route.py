"""Routes that read a body of limited size.

FastAPI reads the whole body of a request before it calls the function of a route, so before that
function can ask for a key. Without a limit, anybody could fill the memory of the process.
"""

from collections.abc import Callable, Coroutine, MutableMapping
from typing import Any, Final

from fastapi import Request, Response
from fastapi.routing import APIRoute

from atdp.runtime.service.http_problem import HttpProblem

MOST_BYTES: Final = 16 * 1024 * 1024
"""Largest body. The longest documents that people send have 4 million characters."""


class LimitedRoute(APIRoute):
    """For `APIRouter(route_class=…)`: a larger body than `MOST_BYTES` is refused with 413."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler of the base class, behind one that reads the body up to the limit."""
        handle = super().get_route_handler()

        async def limited(request: Request) -> Response:
            whole = {"type": "http.request", "body": await _read(request), "more_body": False}
            read = [whole]

            async def receive() -> MutableMapping[str, Any]:
                return read.pop() if read else await request.receive()

            return await handle(Request(request.scope, receive))

        return limited


async def _read(request: Request) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MOST_BYTES:
            raise HttpProblem(
                413, "body_too_large", f"the body is larger than {MOST_BYTES} bytes; send less"
            )
    return bytes(body)
