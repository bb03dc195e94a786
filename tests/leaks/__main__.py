"""Plants personal values in events and counts those that can still be read after governance.

    python -m tests.leaks [--cases N] [--seed N] [--only CLASS] [--processes N] [--show N]

CLASS is a label of the table (`coding=base64`, `type=email`, `nesting=lines`, `split=parts`) or its
word alone. The last line is `left N of M`; the exit status is 1 when a value is left.
"""

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path

from .cases import combinations, leak_case
from .gate import Gate

CASES = 168_944
_CHUNK = 500


@dataclass(slots=True)
class LeakCount:
    """Cases by class: all, those left, those quarantined by reason, and some that are left."""

    total: Counter[str] = field(default_factory=Counter)
    left: Counter[str] = field(default_factory=Counter)
    quarantined: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)

    def add(self, other: "LeakCount") -> None:
        """Add the counts of another part of the cases."""
        self.total.update(other.total)
        self.left.update(other.left)
        self.quarantined.update(other.quarantined)
        self.reasons.update(other.reasons)
        self.examples += other.examples


@dataclass(frozen=True, kw_only=True, slots=True)
class Selection:
    """The cases of one run. `step`: the distance between numbers, so that a sample meets all."""

    seed: int
    only: str
    examples: int
    governed: bool = True


def count_leaks(gate: Gate, numbers: range, selection: Selection) -> LeakCount:
    """Judge the cases with these numbers."""
    count = LeakCount()
    for number in numbers:
        case = leak_case(number, selection.seed, selection.only)
        verdict = gate.judge(case)
        labels = ("all", *case.combination.labels)
        count.total.update(labels)
        if verdict.reason is not None:
            count.quarantined.update(labels)
            count.reasons[verdict.reason] += 1
        if verdict.left:
            count.left.update(labels)
            if len(count.examples) < selection.examples:
                count.examples.append(_example(case.number, case, selection))
    return count


def _example(number: int, case: object, selection: Selection) -> str:
    planted = leak_case(number, selection.seed, selection.only)
    place = planted.field.path
    return (
        f"{number} {' '.join(planted.combination.labels)} {planted.field.kind} {place}\n"
        f"    value {planted.value.text!r} in {_at(planted.record, place)!r}"
    )


def _at(record: object, path: str) -> object:
    for name in path.split("."):
        while isinstance(record, list):
            record = [_at(item, name) for item in record] if len(record) > 1 else record[0]
            if isinstance(record, list):
                return record
        record = record[name]  # type: ignore[index]
    return record


_gates: dict[bool, Gate] = {}


def _count_chunk(numbers: range, selection: Selection) -> LeakCount:
    """Count in a worker process, whose gate is built once."""
    if selection.governed not in _gates:
        home = Path(tempfile.mkdtemp(prefix="atdp-leaks-"))
        _gates[selection.governed] = Gate(home, governed=selection.governed)
    return count_leaks(_gates[selection.governed], numbers, selection)


def table(count: LeakCount) -> str:
    """Return the counts by class, the classes with most values left first within each kind."""
    lines = [f"{'class':<32}{'cases':>9}{'left':>9}{'share':>8}{'quarantined':>13}"]
    for label in sorted(
        count.total,
        key=lambda each: (each.partition("=")[0], -count.left[each] / count.total[each], each),
    ):
        share = count.left[label] / count.total[label]
        lines.append(
            f"{label:<32}{count.total[label]:>9}{count.left[label]:>9}{share:>8.1%}"
            f"{count.quarantined[label]:>13}"
        )
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", type=int, default=CASES)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", metavar="CLASS")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--show", type=int, default=0, help="cases to show that are left, at most")
    parser.add_argument("--ungoverned", action="store_true", help="read the events as planted")
    arguments = parser.parse_args()
    if not combinations(arguments.only):
        parser.error(f"no class is named {arguments.only!r}")
    selection = Selection(
        seed=arguments.seed,
        only=arguments.only,
        examples=arguments.show,
        governed=not arguments.ungoverned,
    )
    chunks = [
        range(start, min(start + _CHUNK, arguments.cases))
        for start in range(0, arguments.cases, _CHUNK)
    ]
    count = LeakCount()
    started = time.monotonic()
    with ProcessPoolExecutor(arguments.processes) as pool:
        for future in as_completed(pool.submit(_count_chunk, each, selection) for each in chunks):
            count.add(future.result())
            judged, left = count.total["all"], count.left["all"]
            seconds = time.monotonic() - started
            print(
                f"\r{judged:,} of {arguments.cases:,} cases, {left:,} left, {seconds:.0f} s",
                end="",
                file=sys.stderr,
                flush=True,
            )
    print(file=sys.stderr)
    print(table(count))
    for example in count.examples[: arguments.show]:
        print(example)
    print(f"quarantined {count.quarantined['all']}: {dict(count.reasons) or 'none'}")
    print(f"left {count.left['all']} of {count.total['all']}")
    return 1 if count.left["all"] else 0


if __name__ == "__main__":
    sys.exit(main())
