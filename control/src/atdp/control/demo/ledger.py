"""The ledger: do the events that the agents emitted and those that arrived come out even?

Three counts that no part of the platform shares: the agents' own tally, the event log read by a fresh consumer, and the
lake's files read with nothing but Parquet. They are put side by side here, so that they can disagree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class LogCount:
    """What the topics hold, by a fresh consumer of committed records."""

    raw_records: int
    """Records of the raw topic, readable or not."""
    governed: Counter[str]
    """Event id → records in the governed topic."""
    quarantined: Counter[tuple[str, str]]
    """(tenant, reason) → records in the quarantine topic."""
    dropped_by_policy: int
    """Audit records with the decision `dropped`."""
    findings: Counter[tuple[str, str]]
    """(entity, operator) → how often governance replaced it, from the audit."""


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """The demo's books. All figures are numbers of events."""

    events_emitted: int
    """By the agents' own tally."""
    raw_records: int
    """In the raw topic."""
    events_landed: int
    """Different event ids in the lake's files."""
    quarantined: int
    dropped_by_policy: int
    duplicates: int
    """Rows of the lake, and records of the governed topic, beyond the first of an event."""

    @property
    def lost(self) -> int:
        """Emitted and nowhere to be found (never below 0: more arrivals than emissions show in `surplus`)."""
        return max(0, self._difference)

    @property
    def surplus(self) -> int:
        """Arrived although no agent counted it."""
        return max(0, -self._difference)

    @property
    def _difference(self) -> int:
        return self.events_emitted - self.events_landed - self.quarantined - self.dropped_by_policy

    @property
    def even(self) -> bool:
        """Every emitted event has exactly one fate."""
        return self._difference == 0 and self.duplicates == 0 and self.raw_records == self.events_emitted


def balance(emitted: int, log: LogCount, landed_ids: Iterable[str]) -> Ledger:
    """Close the books; ``landed_ids`` are the event ids of the lake's files, one per row."""
    landed = Counter(landed_ids)
    return Ledger(
        events_emitted=emitted,
        raw_records=log.raw_records,
        events_landed=len(landed),
        quarantined=log.quarantined.total(),
        dropped_by_policy=log.dropped_by_policy,
        duplicates=max(_repeats(landed), _repeats(log.governed)),
    )


def _repeats(ids: Mapping[str, int]) -> int:
    return sum(count - 1 for count in ids.values())
