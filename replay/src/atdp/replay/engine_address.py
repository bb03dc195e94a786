"""The address of an engine, as a person gives it."""

from typing import Final

import httpx

from atdp.replay.errors import NoEngineError

_PORTS: Final = {"http": 80, "https": 443}
_ALL_PORTS: Final = range(1, 65_536)


def host_and_port(url: str) -> tuple[str, int]:
    """Return the host and the port of an engine's URL.

    Raises:
        NoEngineError: it is not the URL of an HTTP server.
    """
    try:
        parts = httpx.URL(url)
        port = parts.port or _PORTS.get(parts.scheme, 0)
        parts.host.encode("idna")
    except (httpx.InvalidURL, UnicodeError):
        parts, port = httpx.URL(), 0
    if parts.scheme not in _PORTS or not parts.host or port not in _ALL_PORTS:
        raise NoEngineError(f"{url!r} is no address of an engine; use http://HOST:PORT")
    return parts.host, port
