"""The accounting of events: every emitted event must have landed, been quarantined or been dropped.

Three counts are compared that no part of the platform shares: the agents' own count, the event log
read by a fresh consumer, and the lake's files read as plain Parquet. Sums alone would hide a lost
event behind one that arrived twice. So events are compared by id wherever an id is known. Agents
know the ids of the events that they emit themselves; of a proxied call they know only the number of
its events. Those events, and records that governance could not read, are compared by number after
the known ones are taken out.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Set as AbstractSet
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCount:
    """The content of the topics, counted by a fresh consumer of committed records."""

    raw_records: int
    """Records of the raw topic, readable or not."""
    governed: Counter[str]
    """Event id → records in the governed topic."""
    quarantined: Counter[tuple[str, str]]
    """(tenant, reason) → records in the quarantine topic."""
    quarantined_ids: Counter[str]
    """Event id → records in the quarantine topic, for those whose id could be read."""
    dropped_by_policy: int
    """Audit records with the decision `dropped`."""
    dropped_ids: Counter[str]
    """Event id → audit records with the decision `dropped`, for those whose id could be read."""
    findings: Counter[tuple[str, str]]
    """(entity, operator) → number of replacements by governance, from the audit."""

    @property
    def without_id(self) -> int:
        """Quarantined and dropped records whose event id could not be read."""
        refused = self.quarantined.total() - self.quarantined_ids.total()
        return refused + self.dropped_by_policy - self.dropped_ids.total()


@dataclass(frozen=True, slots=True, kw_only=True)
class EventAccounting:
    """The result of the comparison. All fields are numbers of events."""

    events_emitted: int
    """By the agents' own count."""
    raw_records: int
    """In the raw topic."""
    events_landed: int
    """Different event ids in the lake's files."""
    quarantined: int
    dropped_by_policy: int
    duplicates: int
    """Records of the same event in one place (governed topic, lake, quarantine, audit of drops)
    beyond the first."""
    lost: int
    """Emitted or governed, and then in none of the places."""
    surplus: int
    """Arrived although no agent counted it, or landed although it was not governed."""
    contradictory: int
    """Events with more than one result, for example landed and quarantined."""

    @property
    def is_balanced(self) -> bool:
        """True when every emitted event landed, was quarantined or was dropped, exactly once."""
        results = self.events_landed + self.quarantined + self.dropped_by_policy
        wrong = self.duplicates + self.lost + self.surplus + self.contradictory
        return wrong == 0 and self.raw_records == self.events_emitted == results


def account_for_events(
    emitted: int, known: AbstractSet[str], log: LogCount, landed_ids: Iterable[str]
) -> EventAccounting:
    """Compare the three counts.

    `emitted` is the number of all events by the agents' count, `known` the ids of those whose ids
    the agents know; `landed_ids` are the event ids of the lake's files, one per row.
    """
    landed = Counter(landed_ids)
    results = [set(landed), set(log.quarantined_ids), set(log.dropped_ids)]
    arrived = set().union(*results)
    uncounted = emitted - len(known) - len(arrived - known) - log.without_id
    governed_only, landed_only = (
        log.governed.keys() - landed.keys(),
        landed.keys() - log.governed.keys(),
    )
    return EventAccounting(
        events_emitted=emitted,
        raw_records=log.raw_records,
        events_landed=len(landed),
        quarantined=log.quarantined.total(),
        dropped_by_policy=log.dropped_by_policy,
        duplicates=max(_repeats(landed), _repeats(log.governed))
        + _repeats(log.quarantined_ids)
        + _repeats(log.dropped_ids),
        # An event that was governed and did not land is missing in the first number as well, unless
        # a surplus event hides it there.
        lost=max(len(known - arrived) + max(0, uncounted), len(governed_only)),
        surplus=max(0, -uncounted, len(landed_only)),
        contradictory=sum(map(len, results)) - len(arrived),
    )


def _repeats(ids: Mapping[str, int]) -> int:
    return sum(count - 1 for count in ids.values())
