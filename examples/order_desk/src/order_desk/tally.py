"""The agents' own count of what they emitted, and for whom: the side of the books that no service of the platform writes.

Three sources: events that the gateway recorded for a call (it says how many in `x-atdp-events`),
events that the agent emitted itself through the SDK, which tells it their ids, and records written
past every client. Thread-safe, because several agents share one tally.
"""

import threading
from collections import Counter
from collections.abc import Mapping
from typing import Literal

Channel = Literal["proxy", "sdk", "raw topic"]
"""How an event left the agent."""


class Tally:
    """Events emitted, by tenant and channel."""

    def __init__(self) -> None:
        """Start at zero."""
        self._counts: Counter[tuple[str, Channel]] = Counter()
        self._ids: set[str] = set()
        self._tenants: dict[str, str] = {}
        self._lock = threading.Lock()

    def add(self, tenant: str, channel: Channel, events: int = 1) -> None:
        """`events` more were emitted, whose ids the agent was not told."""
        with self._lock:
            self._counts[tenant, channel] += events

    def emit(self, tenant: str, *event_ids: str) -> None:
        """These events were emitted through the SDK."""
        with self._lock:
            self._counts[tenant, "sdk"] += len(event_ids)
            self._ids.update(event_ids)

    def serve(self, tenant: str, trajectory_id: str) -> None:
        """A trajectory was begun for a customer of `tenant`."""
        with self._lock:
            self._tenants[trajectory_id] = tenant

    def tenant_of(self, trajectory_id: str) -> str | None:
        """Whose customer it was, as the agents know it; None when no agent began such a trajectory."""
        with self._lock:
            return self._tenants.get(trajectory_id)

    @property
    def total(self) -> int:
        """All events."""
        with self._lock:
            return self._counts.total()

    @property
    def known_ids(self) -> frozenset[str]:
        """Ids of the events whose ids the agents know."""
        with self._lock:
            return frozenset(self._ids)

    def by_tenant(self) -> Mapping[str, int]:
        """Events by tenant."""
        found: Counter[str] = Counter()
        with self._lock:
            for (tenant, _), events in self._counts.items():
                found[tenant] += events
        return dict(sorted(found.items()))

    def by_channel(self) -> Mapping[str, int]:
        """Events by channel."""
        found: Counter[str] = Counter()
        with self._lock:
            for (_, channel), events in self._counts.items():
                found[channel] += events
        return dict(sorted(found.items()))
