"""The governed events of the lake, for previews of policies."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from atdp.governance import SampleWindow
    from atdp.lakehouse import Connection, Lake
    from atdp.runtime import Home

_AT_ONCE: Final = 200
"""Trajectories of one statement."""


@dataclass(slots=True)
class LakeEvents:
    """The events of the tenants that a preview samples; see `GovernedEvents`.

    The time of an event is its arrival in the governed topic. Whatever purposes an event allows, it
    is read: the caller sees counts, and texts only with the permission to see raw data.
    """

    home: "Home"
    tenants: Sequence[str]
    """Empty: all tenants."""
    _lake: "Lake | None" = field(default=None, repr=False)

    def trajectories(self, window: "SampleWindow") -> Iterable[tuple[str, str]]:
        """See `GovernedEvents`."""
        with self._connection() as connection:
            rows = connection.all_rows(
                "SELECT DISTINCT tenant_id, trajectory_id FROM events "  # noqa: S608 - literals
                f"WHERE {self._within(window)}"
            )
        return [(row["tenant_id"], row["trajectory_id"]) for row in rows]

    def events(
        self, window: "SampleWindow", trajectories: Sequence[tuple[str, str]]
    ) -> Iterator[Mapping[str, Any]]:
        """See `GovernedEvents`."""
        from atdp.lakehouse import sql_literal

        chosen = sorted(trajectories)
        for start in range(0, len(chosen), _AT_ONCE):
            some = chosen[start : start + _AT_ONCE]
            pairs = ", ".join(f"({sql_literal(a)}, {sql_literal(b)})" for a, b in some)
            with self._connection() as connection:
                yield from connection.all_rows(
                    "SELECT * FROM events "  # noqa: S608 - literals
                    f"WHERE {self._within(window)} AND (tenant_id, trajectory_id) IN ({pairs}) "
                    "ORDER BY kafka_partition, kafka_offset"
                )

    def _connection(self) -> "Connection":
        from atdp.lakehouse import ANY_PURPOSE, connect, open_lake

        self._lake = self._lake or open_lake(self.home)
        tenant = self.tenants[0] if len(self.tenants) == 1 else None
        return connect(lake=self._lake, tenant=tenant, purpose=ANY_PURPOSE)

    def _within(self, window: "SampleWindow") -> str:
        from atdp.lakehouse import sql_literal

        since, until = window.since.isoformat(), window.until.isoformat()
        times = (
            f"arrived_at >= TIMESTAMPTZ {sql_literal(since)} "
            f"AND arrived_at < TIMESTAMPTZ {sql_literal(until)}"
        )
        if not self.tenants:
            return times
        return f"{times} AND tenant_id IN ({', '.join(map(sql_literal, self.tenants))})"
