"""What was worked out before, within a bound of bytes: the least recently used entry goes first."""

from collections import OrderedDict
from typing import Generic, TypeVar

V = TypeVar("V")

_LARGEST_SHARE = 64
"""No entry takes more than this part of the bound: one long string must not push out what others
ask for all the time."""
_ENTRY_BYTES = 250
"""Key, tuple and links of one entry, about."""


class Memory(Generic[V]):
    """Values by key (16 bytes), as many as fit. Not for several threads at once."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._entries: OrderedDict[bytes, tuple[V, int]] = OrderedDict()
        self.held_bytes = 0

    def get(self, key: bytes) -> V | None:
        """The value, if it is still known."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        self._entries.move_to_end(key)
        return entry[0]

    def put(self, key: bytes, value: V, size_bytes: int) -> None:
        """Remember a value of about `size_bytes`; one that is too large is not."""
        size_bytes += _ENTRY_BYTES
        if size_bytes * _LARGEST_SHARE > self._limit_bytes:
            return
        replaced = self._entries.pop(key, None)
        self.held_bytes += size_bytes - (0 if replaced is None else replaced[1])
        self._entries[key] = value, size_bytes
        while self.held_bytes > self._limit_bytes:
            _, (_, freed) = self._entries.popitem(last=False)
            self.held_bytes -= freed

    def __len__(self) -> int:
        return len(self._entries)
