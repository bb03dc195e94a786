"""The register: an append-only log that every process reads in the same order.

Policies, access policies and consent are decided by people, on one machine or many, and hold
everywhere. Each decision is an entry of one log. The rules about decisions (a version only rises,
two persons) are folds over that log, so that every reader comes to the same result, also when two
writers race: the entry that comes second in the log is the one that the fold refuses.
"""

import threading
from collections.abc import Sequence
from typing import Protocol

from atdp.runtime.register.entry import RegisterEntry


class Register(Protocol):
    """A reader and writer of the log. Not thread-safe.

    `KafkaRegister` is the log of a running stack, `MemoryRegister` that of a test.
    """

    def read(self) -> Sequence[RegisterEntry]:
        """Return the entries that were appended since the last call, in the order of the log.

        The first call returns all of them. Each call reads to the end that the log has when it is
        called, so an entry that was appended before is never missing.

        Raises:
            RegisterUnavailable: the log cannot be read to its end. The caller must not assume that
                what it has read is all.
        """
        ...

    def append(self, entry: RegisterEntry) -> int:
        """Append an entry and return its offset when the log has acknowledged it.

        Raises:
            RegisterUnavailable: it is not known to be in the log.
        """
        ...

    def close(self) -> None:
        """Release connections."""
        ...


class MemoryLog:
    """A log in memory that several registers share."""

    def __init__(self) -> None:
        self.entries: list[RegisterEntry] = []
        self.lock = threading.Lock()


class MemoryRegister:
    """A register in memory, for tests; see `Register`."""

    def __init__(self, log: MemoryLog | None = None) -> None:
        self._log = log or MemoryLog()
        self._next = 0

    def read(self) -> Sequence[RegisterEntry]:
        """See `Register`."""
        new = self._log.entries[self._next :]
        self._next += len(new)
        return new

    def append(self, entry: RegisterEntry) -> int:
        """See `Register`."""
        entry.encode()
        with self._log.lock:
            offset = len(self._log.entries)
            self._log.entries.append(entry.at(offset))
        return offset

    def close(self) -> None:
        """See `Register`."""
