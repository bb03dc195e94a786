"""Room for what is in flight: a bound in bytes, given out in the order of asking.

First come, first served: a large request is not overtaken for ever by small ones, and of two copies
of a request the first is sent first. Who waits longer than the time-out goes away with nothing.
Larger than the bound alone still passes when nothing else is in flight. Used from one event loop.
"""

import asyncio
from collections import deque
from dataclasses import dataclass


@dataclass(frozen=True)
class _Waiting:
    size: int
    turn: "asyncio.Future[None]"


class Room:
    """At most `bound_bytes` taken at a time."""

    def __init__(self, bound_bytes: int, timeout_s: float) -> None:
        self._bound_bytes = bound_bytes
        self._timeout_s = timeout_s
        self._taken_bytes = 0
        self._queue: deque[_Waiting] = deque()

    async def take(self, size: int) -> bool:
        """Take room for `size` bytes when it is this caller's turn; False when that does not come in time."""
        waiting = _Waiting(size, asyncio.get_running_loop().create_future())
        self._queue.append(waiting)
        self._admit()
        try:
            if not waiting.turn.done():
                await asyncio.wait({waiting.turn}, timeout=self._timeout_s)
        except asyncio.CancelledError:
            if waiting.turn.done():
                self.give_back(size)
            raise
        finally:
            if not waiting.turn.done():
                self._queue.remove(waiting)
                self._admit()  # what stood behind may be smaller
        return waiting.turn.done()

    def give_back(self, size: int) -> None:
        """`size` bytes are no longer in flight."""
        self._taken_bytes -= size
        self._admit()

    def _admit(self) -> None:
        while self._queue and self._fits(self._queue[0].size):
            first = self._queue.popleft()
            self._taken_bytes += first.size
            first.turn.set_result(None)

    def _fits(self, size: int) -> bool:
        return self._taken_bytes == 0 or self._taken_bytes + size <= self._bound_bytes
