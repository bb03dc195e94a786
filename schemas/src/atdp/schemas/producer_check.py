"""The check of a producer: its events against the rules of events and of sequences.

`check_vectors` holds the checker itself against the vectors, which shows that this installation and
the files agree.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import is_dataclass
from typing import Any

from atdp.schemas.conformance_report import ConformanceReport
from atdp.schemas.conformance_vectors import ConformanceVector, event_vectors, sequence_vectors
from atdp.schemas.contract_check import ENCODING_RULE, check
from atdp.schemas.errors import SchemaError
from atdp.schemas.event_files import EventEntry
from atdp.schemas.rule_catalogue import contract_rules
from atdp.schemas.sequence_check import SequenceCheck, check_sequence


def check_producer(entries: Iterable[EventEntry]) -> ConformanceReport:
    """Hold the events of a producer, in the order of its log, against all rules.

    A rule of events counts once for each event that has the rule's record. An event that breaks
    such a rule still takes part in its sequence.
    """
    report, sequence = ConformanceReport(), SequenceCheck()
    records: Counter[frozenset[str]] = Counter()
    broken: Counter[str] = Counter()
    for entry in entries:
        report.items += 1
        if entry.event is None:
            report.count(ENCODING_RULE, False, f"{entry.place} $: {entry.reason}")
            continue
        violations = check(entry.event)
        for violation in violations:
            place = f"{entry.place} {violation.path}"
            report.count(violation.rule_id, False, place)
        broken.update({violation.rule_id for violation in violations})
        records[frozenset(_record_names(entry.event))] += 1
        for found in sequence.add(entry.event, entry.place):
            report.count(found.rule_id, found.kept, f"{found.place} {found.path}")
    for found in sequence.finish():
        report.count(found.rule_id, found.kept, f"{found.place} {found.path}")
    _count_kept(report, records, broken)
    return report


def check_vectors() -> ConformanceReport:
    """Hold the checks of this installation against the vectors."""
    report = ConformanceReport()
    for vector in event_vectors():
        report.count(vector.rule, _agrees(vector, _broken_rules(vector)), vector.id)
    for vector in sequence_vectors():
        report.count(vector.rule, _agrees(vector, check_sequence(vector.read())), vector.id)
    report.items = len(event_vectors()) + len(sequence_vectors())
    return report


def _broken_rules(vector: ConformanceVector) -> tuple[str, ...]:
    try:
        (event,) = vector.read()
    except SchemaError:
        return (vector.rule,)
    return tuple(violation.rule_id for violation in check(event))


def _agrees(vector: ConformanceVector, broken: tuple[str, ...]) -> bool:
    return vector.rule in broken if vector.verdict == "reject" else not broken


def _count_kept(
    report: ConformanceReport, records: Counter[frozenset[str]], broken: Counter[str]
) -> None:
    seen: Counter[str] = Counter()
    for names, number in records.items():
        seen.update(dict.fromkeys(names, number))
    record_of = {rule.id: rule.record for rule in contract_rules()} | {ENCODING_RULE: "Event"}
    for verdict in report:
        if record := record_of.get(verdict.rule_id):
            verdict.passed = seen[record] - broken[verdict.rule_id]


def _record_names(value: Any) -> set[str]:
    """Return the records of the contract in a value; a class has the name of its record."""
    names = {type(value).__name__}
    for name in value.__slots__:
        inner = getattr(value, name)
        if isinstance(inner, tuple) and inner and is_dataclass(inner[0]):
            for item in inner:
                names |= _record_names(item)
        elif is_dataclass(inner):
            names |= _record_names(inner)
    return names
