"""The values that both sides replace, counted by entity or by path."""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from atdp.governance.preview.report import CountRow
from atdp.governance.preview.trial import TrialOutcome

_ORDER: Final = (1, -1, 0)
"""Signs of a change in the order of the counts of records: more, fewer, same."""


@dataclass(slots=True)
class ReplacementCounts:
    """Values by name under both sides, and the records by how they differ."""

    values: dict[str, list[int]] = field(default_factory=lambda: defaultdict(lambda: [0] * 5))

    def add(self, active: Mapping[str, int], draft: Mapping[str, int]) -> None:
        """Add the values of one record."""
        for name in active.keys() | draft.keys():
            row = self.values[name]
            before, after = active.get(name, 0), draft.get(name, 0)
            row[0] += before
            row[1] += after
            row[2 + _ORDER.index((after > before) - (after < before))] += 1

    def rows(self, operators: Callable[[str], str] = lambda _name: "") -> list[CountRow]:
        """Return the counts, those that differ most first."""
        rows = [
            CountRow(
                name=name,
                active=active,
                draft=draft,
                more=more,
                fewer=fewer,
                same=same,
                operators=operators(name),
            )
            for name, (active, draft, more, fewer, same) in self.values.items()
        ]
        return sorted(rows, key=lambda row: (-abs(row.change), -row.more - row.fewer, row.name))


def by_entity(outcome: TrialOutcome) -> Counter[str]:
    """Count the replaced values of a record by entity."""
    counts: Counter[str] = Counter()
    for each in outcome.replacements:
        counts[each.entity] += each.count
    return counts


def by_path(outcome: TrialOutcome) -> Counter[str]:
    """Count the replaced values of a record by path."""
    counts: Counter[str] = Counter()
    for each in outcome.replacements:
        counts[each.path] += each.count
    return counts
