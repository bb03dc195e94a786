"""Event forms: which of the records of one event its row is made of.

An event has several records in the log when its producer sent it again (a *copy*), or when
governance governed it again with more learned values and wrote it anew (a *re-governed* record, see
`docs/decisions/0023`). The table has one row per event. This module decides, as a fold over the
records in the order of the log:

- The first record of an event makes its row, whatever kind of record it is.
- A copy changes nothing.
- A re-governed record takes the place of the form that counts, if it is of the same event in the
  same partition and was governed with more learned values. So neither a late copy of an older form
  nor a re-governed record that comes twice ever wins.

The row keeps the place in the log of its first record, whichever form it has, so that the order of
a trajectory does not change. The decision starts from the forms in the table, which may be ahead of
the records: a record is then the one that the row is made of, at its *own place*, or an older one.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, TypeAlias

EventKey: TypeAlias = tuple[str, str]
"""Tenant and event id."""

IN_TABLE = -1

IDENTITY = ("trajectory_id", "attempt", "kind", "seq")
"""Columns that are the same in all forms of an event: governance does not change them. Two events
that have one id by mistake mostly differ in them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EventForm:
    """One form of an event: a record of the log, or the row of the table."""

    key: EventKey
    partition: int
    offset: int
    """Offset of the record."""
    first_offset: int
    """Offset of the event's first record, which is the place of its row."""
    first_arrived_at: datetime
    identity: tuple[Any, ...]
    version: int
    """Number of learned values with which it was governed."""
    regoverned: bool
    content: int | None
    """Hash of the content; None: not compared."""
    row: int
    """Number of the record in its batch; `IN_TABLE`: it is the row of the table."""

    def is_at(self, other: "EventForm") -> bool:
        """Return whether both are the same record of the log."""
        return (self.partition, self.offset) == (other.partition, other.offset)

    def replaces(self, other: "EventForm") -> bool:
        """Return whether this record takes the place of a form that counted until now."""
        return (
            self.regoverned
            and self._is_same_event(other)
            and self.offset > other.offset
            and self.version > other.version
        )

    def conflicts_with(self, other: "EventForm") -> bool:
        """Return whether this record, which does not count, has other content than `other`.

        Forms that were governed with different learned values differ in any case.
        """
        if self.regoverned:
            return not self._is_same_event(other)
        if self.content is None or other.content is None or self.version != other.version:
            return False
        return self.content != other.content

    def _is_same_event(self, other: "EventForm") -> bool:
        return self.partition == other.partition and self.identity == other.identity


@dataclass(frozen=True, kw_only=True, slots=True)
class FormDecision:
    """The decision about the records of a batch, by their numbers in it."""

    repeats: list[int] = field(default_factory=list)
    """Records that make no row, since another form of their event counts."""
    conflicts: list[int] = field(default_factory=list)
    """Repeats with other content than the form that counts."""
    replacing: dict[int, tuple[int, datetime]] = field(default_factory=dict)
    """Records that take the place of an earlier form, with the place of its row."""


def decide(records: Iterable[EventForm], landed: Mapping[EventKey, EventForm]) -> FormDecision:
    """Decide about records in the order of the log, given the forms in the table."""
    decision = FormDecision()
    current = dict(landed)
    for record in records:
        counted = current.get(record.key)
        if counted is None:
            current[record.key] = record
            continue
        at_own_place = record.is_at(counted)
        if not at_own_place and not record.replaces(counted):
            decision.repeats.append(record.row)
            if record.conflicts_with(counted):
                decision.conflicts.append(record.row)
            continue
        if not at_own_place and counted.row != IN_TABLE:
            decision.repeats.append(counted.row)
            decision.replacing.pop(counted.row, None)
        form = replace(
            record,
            first_offset=counted.first_offset,
            first_arrived_at=counted.first_arrived_at,
        )
        if form.first_offset != form.offset:
            decision.replacing[form.row] = (form.first_offset, form.first_arrived_at)
        current[record.key] = form
    return decision
