"""The agents' own count of the events that they emitted, by tenant and channel.

No service of the platform takes part in this count. It has three sources: events that the gateway
recorded for a call (`x-atdp-events` holds their number), events that the agent emitted itself
through the SDK, which returns their ids, and records written past every client.
"""

import threading
from collections import Counter
from collections.abc import Mapping
from typing import Literal

Channel = Literal["proxy", "sdk", "raw topic"]
"""The way by which an event left the agent."""


class EmittedEvents:
    """Counts of emitted events. Thread-safe, because several agents share one object."""

    def __init__(self) -> None:
        """Start at zero."""
        self._counts: Counter[tuple[str, Channel]] = Counter()
        self._ids: set[str] = set()
        self._tenants: dict[str, str] = {}
        self._lock = threading.Lock()

    def add(self, tenant: str, channel: Channel, events: int = 1) -> None:
        """Count `events` more, whose ids the agent does not know."""
        with self._lock:
            self._counts[tenant, channel] += events

    def add_ids(self, tenant: str, *event_ids: str) -> None:
        """Count events that were emitted through the SDK, and keep their ids."""
        with self._lock:
            self._counts[tenant, "sdk"] += len(event_ids)
            self._ids.update(event_ids)

    def begin(self, tenant: str, trajectory_id: str) -> None:
        """Note that a trajectory was begun for a customer of `tenant`."""
        with self._lock:
            self._tenants[trajectory_id] = tenant

    def tenant_of(self, trajectory_id: str) -> str | None:
        """Return the tenant of a trajectory; None when no agent began it."""
        with self._lock:
            return self._tenants.get(trajectory_id)

    @property
    def total(self) -> int:
        """The number of all events."""
        with self._lock:
            return self._counts.total()

    @property
    def known_ids(self) -> frozenset[str]:
        """The ids of the events whose ids the agents know."""
        with self._lock:
            return frozenset(self._ids)

    def by_tenant(self) -> Mapping[str, int]:
        """Return the number of events of each tenant."""
        counts: Counter[str] = Counter()
        with self._lock:
            for (tenant, _), events in self._counts.items():
                counts[tenant] += events
        return dict(sorted(counts.items()))

    def by_channel(self) -> Mapping[str, int]:
        """Return the number of events of each channel."""
        counts: Counter[str] = Counter()
        with self._lock:
            for (_, channel), events in self._counts.items():
                counts[channel] += events
        return dict(sorted(counts.items()))
