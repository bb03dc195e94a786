"""A limit on the bytes in flight, granted in the order of the requests.

First come, first served: small requests cannot hold up a large one indefinitely, and of two copies
of a request the first one is sent first. A request that waits longer than the time-out gets
nothing. A request that is larger than the limit passes when nothing else is in flight. For use from
one event loop.
"""

import asyncio
from collections import deque
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class _Waiting:
    size: int
    granted: "asyncio.Future[None]"


class ByteLimiter:
    """Grants at most `limit_bytes` at a time."""

    def __init__(self, limit_bytes: int, timeout_s: float) -> None:
        self._limit_bytes = limit_bytes
        self._timeout_s = timeout_s
        self._granted_bytes = 0
        self._queue: deque[_Waiting] = deque()

    async def acquire(self, size: int) -> bool:
        """Wait for `size` bytes; False when they were not granted within the time-out."""
        waiting = _Waiting(size, asyncio.get_running_loop().create_future())
        self._queue.append(waiting)
        self._grant()
        try:
            if not waiting.granted.done():
                await asyncio.wait({waiting.granted}, timeout=self._timeout_s)
        except asyncio.CancelledError:
            if waiting.granted.done():
                self.release(size)
            raise
        finally:
            if not waiting.granted.done():
                self._queue.remove(waiting)
                self._grant()  # the next request in the queue may be smaller
        return waiting.granted.done()

    def release(self, size: int) -> None:
        """Give back `size` bytes that are no longer in flight."""
        self._granted_bytes -= size
        self._grant()

    def _grant(self) -> None:
        while self._queue and self._fits(self._queue[0].size):
            first = self._queue.popleft()
            self._granted_bytes += first.size
            first.granted.set_result(None)

    def _fits(self, size: int) -> bool:
        return self._granted_bytes == 0 or self._granted_bytes + size <= self._limit_bytes
