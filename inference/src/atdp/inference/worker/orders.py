"""Orders to the engine: actions that its thread carries out between two steps."""

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True, slots=True)
class Order:
    """One action and its result."""

    action: Callable[[], object]
    after_running: bool
    """Wait until no request is running, unless the engine is paused."""
    result: Future[object] = field(default_factory=Future)

    def carry_out(self) -> None:
        """Run the action; its error goes to the one who waits for the result."""
        try:
            self.result.set_result(self.action())
        except Exception as error:  # noqa: BLE001 - the caller gets it; the engine goes on
            self.result.set_exception(error)


class OrderQueue:
    """Orders in the order in which they came; the caller holds the engine's lock."""

    def __init__(self) -> None:
        self._orders: deque[Order] = deque()

    def __len__(self) -> int:
        """Return the number of waiting orders."""
        return len(self._orders)

    def add(self, order: Order) -> None:
        """Append an order."""
        self._orders.append(order)

    def is_due(self, *, running: bool, paused: bool) -> bool:
        """Return True when the first order can be carried out now."""
        return bool(self._orders) and (paused or not running or not self._orders[0].after_running)

    def take_due(self, *, running: bool, paused: bool) -> list[Order]:
        """Remove and return the orders that can be carried out now.

        An order that has to wait holds all orders behind it back.
        """
        due = []
        while self.is_due(running=running, paused=paused):
            due.append(self._orders.popleft())
        return due
