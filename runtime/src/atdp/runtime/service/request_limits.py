"""Limits on how a client may send a request.

uvicorn waits for ever for the rest of a request, and keeps the headers that came so far. A client
that opens connections and sends a byte now and then would occupy the service. Here a connection is
closed when a request has not come completely within `ARRIVAL_S` of its first byte, or of the
connection, and when its headers are longer than `MAX_HEADER_BYTES`. Time that the answer takes does
not count. Between two requests, uvicorn's own limit holds.
"""

import asyncio
import logging
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

from atdp.runtime.service.connection_bounds import ARRIVAL_S, MAX_HEADER_BYTES

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
        request, body_bytes = self.cycle, self._body_bytes()
        super().data_received(data)
        # Everything else are headers: of this request, of one that follows while this one is
        # answered, or behind the last chunk of a body.
        got_on = self.cycle is not request or self._body_bytes() > body_bytes
        self._header_bytes = 0 if got_on else self._header_bytes + len(data)
        headers_wanted = self.cycle is None or self.cycle.response_complete
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

    def _body_bytes(self) -> int:
        """Return the bytes of the body that the application has not taken yet."""
        return 0 if self.cycle is None else len(self.cycle.body)

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
