"""The ledger: has every event that the agents emitted exactly one fate?

Three records that no part of the platform shares: the agents' own tally, the event log read by a
fresh consumer, and the lake's files read with nothing but Parquet. They are put side by side here,
so that they can disagree. Sums would hide an event that is lost behind one that arrived twice; so
events are compared by id wherever an id is known. Of what agents emit themselves they know the ids;
of a proxied call only how many events it caused, so that those, and records that nobody could read,
are compared by number once the known ones are taken out.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Set as AbstractSet
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
    quarantined_ids: Counter[str]
    """Event id → records in the quarantine topic, for those whose id could be read."""
    dropped_by_policy: int
    """Audit records with the decision `dropped`."""
    dropped_ids: Counter[str]
    """Event id → audit records with the decision `dropped`, for those whose id could be read."""
    findings: Counter[tuple[str, str]]
    """(entity, operator) → how often governance replaced it, from the audit."""

    @property
    def nameless(self) -> int:
        """Records with a fate whose event id could not be read."""
        refused = self.quarantined.total() - self.quarantined_ids.total()
        return refused + self.dropped_by_policy - self.dropped_ids.total()


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
    """Records of the same event in one place (governed topic, lake, quarantine, audit of drops)
    beyond the first."""
    lost: int
    """Emitted, or governed, and then nowhere to be found."""
    surplus: int
    """Arrived although no agent counted it, or landed although nobody governed it."""
    contradictory: int
    """Events with more than one fate: landed and quarantined, say."""

    @property
    def even(self) -> bool:
        """Every emitted event has exactly one fate."""
        fates = self.events_landed + self.quarantined + self.dropped_by_policy
        wrong = self.duplicates + self.lost + self.surplus + self.contradictory
        return wrong == 0 and self.raw_records == self.events_emitted == fates


def balance(
    emitted: int, known: AbstractSet[str], log: LogCount, landed_ids: Iterable[str]
) -> Ledger:
    """Close the books.

    `emitted` is the number of all events by the agents' tally, `known` the ids of those whose ids
    the agents know; `landed_ids` are the event ids of the lake's files, one per row.
    """
    landed = Counter(landed_ids)
    fates = [set(landed), set(log.quarantined_ids), set(log.dropped_ids)]
    arrived = set().union(*fates)
    uncounted = emitted - len(known) - len(arrived - known) - log.nameless
    governed_only, landed_only = (
        log.governed.keys() - landed.keys(),
        landed.keys() - log.governed.keys(),
    )
    return Ledger(
        events_emitted=emitted,
        raw_records=log.raw_records,
        events_landed=len(landed),
        quarantined=log.quarantined.total(),
        dropped_by_policy=log.dropped_by_policy,
        duplicates=max(_repeats(landed), _repeats(log.governed))
        + _repeats(log.quarantined_ids)
        + _repeats(log.dropped_ids),
        # What was governed and did not land is missing in the count as well, unless something hides
        # it there.
        lost=max(len(known - arrived) + max(0, uncounted), len(governed_only)),
        surplus=max(0, -uncounted, len(landed_only)),
        contradictory=sum(map(len, fates)) - len(arrived),
    )


def _repeats(ids: Mapping[str, int]) -> int:
    return sum(count - 1 for count in ids.values())
