"""Snapshots that a process has named and may read, although the table does not keep them any more.

A table that is committed to every second keeps its snapshots for less than half a minute, which a
reader may need to plan its first query. The files of a snapshot stay for an hour after it expired
(`retention.GRACE_S`); only the metadata that lists them leaves the table. So whoever names a
snapshot keeps the metadata that it was found in, for a time that ends well before the files go.
"""

import threading
import time
from collections import OrderedDict
from typing import Final

from pyiceberg.table import Table

_HELD_S: Final = 900.0
_MOST_HELD: Final = 64
"""Each takes some tens of kilobytes."""


class HeldSnapshots:
    """The states of tables in which their newest snapshots were found. Thread-safe."""

    def __init__(self) -> None:
        self._states: OrderedDict[int, tuple[float, Table]] = OrderedDict()
        """Snapshot → the time until which it is held, and the table."""
        self._lock = threading.Lock()

    def hold(self, table: Table) -> None:
        """Hold the newest snapshot of a table."""
        current = table.current_snapshot()
        if current is None:
            return
        with self._lock:
            self._states[current.snapshot_id] = time.monotonic() + _HELD_S, table
            self._states.move_to_end(current.snapshot_id)
            if len(self._states) > _MOST_HELD:
                self._states.popitem(last=False)

    def state_of(self, snapshot_id: int) -> Table | None:
        """Return the state of a table that has a snapshot; None when it is not held any more."""
        with self._lock:
            until_s, table = self._states.get(snapshot_id, (0.0, None))
        return table if time.monotonic() < until_s else None
