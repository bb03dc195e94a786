"""Access to the worker: requests for a trusted host that carry the token of the home.

The host is checked because a web page can make a browser on this machine send requests to the
worker under a name of the page's own (DNS rebinding). Probes of the supervisor carry no token; what
they answer is only whether the worker runs and has weights.
"""

import re
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from hmac import compare_digest
from typing import Any

from fastapi import Response

from atdp.inference.worker.error_answers import error_answer

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]

LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "[::1]")

_PROBES = frozenset({"/healthz", "/readyz", "/health"})
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^:\[\]]+)(:[0-9]+)?")


class AccessControl:
    """ASGI middleware: 421 for a host that is not trusted, 401 without the token."""

    def __init__(self, app: ASGIApp, *, token: str, hosts: Iterable[str]) -> None:
        """Protect `app`; `hosts` are the names, without a port, under which it is asked."""
        self._app = app
        self._token = token.encode()
        self._hosts = frozenset(host.lower() for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass an allowed request on, and answer any other one."""
        refusal = None if scope["type"] == "lifespan" else self._refusal(scope)
        if refusal is None:
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await refusal(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008})

    def _refusal(self, scope: Scope) -> Response | None:
        path = str(scope["path"])
        host = _HOST.fullmatch(_only_value(scope, b"host").decode("latin-1").lower())
        if host is None or host.group(1) not in self._hosts:
            return error_answer(path, 421, "This worker is not asked under that host.", "Host")
        probe = scope["type"] == "http" and scope["method"] == "GET" and path in _PROBES
        if probe or self._carries_token(scope):
            return None
        answer = error_answer(
            path,
            401,
            "This worker needs the token of its home (`Authorization: Bearer …`); "
            "it is in secrets/engine.key.",
            "AuthenticationError",
        )
        answer.headers["www-authenticate"] = "Bearer"
        return answer

    def _carries_token(self, scope: Scope) -> bool:
        scheme, _, token = _only_value(scope, b"authorization").partition(b" ")
        return scheme.lower() == b"bearer" and compare_digest(token, self._token)


def _only_value(scope: Scope, name: bytes) -> bytes:
    """Return the value of a header that occurs once, else nothing."""
    values = [value for key, value in scope["headers"] if key == name]
    return values[0] if len(values) == 1 else b""
