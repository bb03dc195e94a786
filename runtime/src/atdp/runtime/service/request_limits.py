"""Limits on how a client may send a request.

uvicorn waits for ever for the rest of a request, and keeps the headers that came so far. A client
that opens connections and sends a byte now and then would occupy the service. Here a connection is
closed when a request has not come completely within `ARRIVAL_S` of its first byte, or of the
connection, and when its headers are longer than `MAX_HEADER_BYTES`. Time that the answer takes does
not count. Between two requests, uvicorn's own limit holds.
"""

import asyncio
import logging
from typing import Any, Final

from uvicorn.protocols.http.auto import AutoHTTPProtocol

ARRIVAL_S: Final = 60.0
"""Seconds for a whole request. 32 MiB arrive within them at 0.6 MB/s."""
MAX_HEADER_BYTES: Final = 64 * 1024
MAX_CONNECTIONS: Final = 1_000
"""Open connections; a request on a further one is answered 503."""

_log = logging.getLogger("atdp.service")


class LimitedRequests(AutoHTTPProtocol):  # type: ignore[misc, valid-type] # chosen by uvicorn
    """One connection."""

    _timer: asyncio.TimerHandle | None = None
    _header_bytes = 0

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Take in a part of a request."""
        super().data_received(data)
        headers_wanted = self.cycle is None or self.cycle.response_complete
        self._header_bytes = self._header_bytes + len(data) if headers_wanted else 0
        if self._header_bytes > MAX_HEADER_BYTES:
            self._end("its headers are too long")
        elif headers_wanted or self.cycle.more_body:
            self._watch()
        else:
            self._rest()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._rest()
        super().connection_lost(exc)

    def _watch(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(ARRIVAL_S, self._end, "it does not arrive")

    def _rest(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _end(self, why: str) -> None:
        if not self.transport.is_closing():
            _log.info("a request is given up", extra={"why": why})
            self.transport.abort()
