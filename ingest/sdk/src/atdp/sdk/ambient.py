"""The value of the innermost running block, such as the trajectory that code runs in.

It is a context variable: it follows `async` tasks, and threads only where the host copies its
context (`contextvars.copy_context`). Explicit parents work everywhere.
"""

from contextvars import ContextVar, Token
from typing import Generic, TypeVar

T = TypeVar("T")


class Ambient(Generic[T]):
    """The innermost value whose block is running, None outside of any."""

    def __init__(self, name: str) -> None:
        """Name the context variable."""
        self._current: ContextVar[T | None] = ContextVar(name, default=None)

    @property
    def current(self) -> T | None:
        """The value of the innermost block."""
        return self._current.get()

    def enter(self, value: T) -> Token[T | None]:
        """Begin a block."""
        return self._current.set(value)

    def leave(self, token: Token[T | None]) -> None:
        """End a block and return to the value before it."""
        try:
            self._current.reset(token)
        except ValueError:
            # The block was entered in another context, for example by an async generator that is
            # finalised elsewhere.
            self._current.set(None)
