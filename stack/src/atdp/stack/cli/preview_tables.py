"""The report of a preview as text and tables for a terminal, and as rows."""

import io
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from atdp.stack.cli.output import Row, build_table

if TYPE_CHECKING:
    from atdp.governance import SampleComparison

_MOST_ROWS: Final = 15
"""Rows of one table; the page and JSON have all."""
_WIDTH: Final = 140
_TITLES: Final = {
    "raw": "raw records",
    "quarantine": "records in quarantine",
    "lake": "events in the lake, which were governed before: changes come on top",
}


def preview_tables(sample: "SampleComparison", *, seed: int) -> Iterator[str]:
    """Yield the lines about one sample."""
    part = f"sample of {sample.trajectories}" if sample.is_part else "all"
    drawn = f", seed {seed}" if sample.is_part else ""
    yield ""
    yield f"{_TITLES[sample.source]}: {part} of {sample.in_window} trajectories{drawn}"
    if sample.remark:
        yield sample.remark
    if not sample.records:
        yield "no record of this source is compared"
        return
    yield f"{sample.changed} of {sample.records} records are governed differently"
    if sample.begun_before:
        yield (
            f"{sample.begun_before} trajectories began before the window: what they taught before "
            "is unknown to both sides"
        )
    yield from _shares(sample)
    for title, rows, columns in _sections(sample):
        if rows:
            yield ""
            yield _table(title, rows[:_MOST_ROWS], columns)
            if len(rows) > _MOST_ROWS:
                yield f"… and {len(rows) - _MOST_ROWS} more; --html and --format json have all"


def preview_rows(sample: "SampleComparison") -> Iterator[Row]:
    """Yield what was counted under both sides, as rows of one form."""
    for row in sample.outcomes:
        yield _row(sample, "records", f"{row.active} → {row.draft}", row.records, row.records)
    for section, rows in (("entity", sample.entities), ("path", sample.paths)):
        for count in rows:
            yield _row(sample, section, count.name, count.active, count.draft)
    for rule in sample.rules:
        yield _row(sample, "rule", f"{rule.entity}: {rule.rule}", rule.active, rule.draft)
    for reason in sample.reasons:
        yield _row(sample, "set aside", reason.reason, reason.active, reason.draft)
    training, cost = sample.training, sample.cost
    yield _row(sample, "trajectories that may train", "", training.active, training.draft)
    yield _row(sample, "CPU µs per kB", "", cost.active_us, cost.draft_us)


def _row(
    sample: "SampleComparison",
    section: str,
    name: str,
    active: float | None,
    draft: float | None,
) -> Row:
    return {
        "source": sample.source,
        "section": section,
        "name": name,
        "active": active,
        "draft": draft,
    }


def _shares(sample: "SampleComparison") -> Iterator[str]:
    from atdp.governance import share_text

    training, fidelity, cost = sample.training, sample.fidelity, sample.cost
    yield f"trajectories that lose training: {share_text(training.loses)}"
    yield f"trajectories that gain training: {share_text(training.gains)}"
    if fidelity.changes.of:
        yield f"model calls whose token fidelity changes: {share_text(fidelity.changes)}"
        yield f"model calls that lose exact tokens: {share_text(fidelity.loses_exact)}"
    if cost.active_us is not None and cost.draft_us is not None:
        yield f"CPU time per kB: {cost.active_us:.0f} µs active, {cost.draft_us:.0f} µs draft"


def _sections(
    sample: "SampleComparison",
) -> Iterator[tuple[str, Sequence[Row], Sequence[str]]]:
    counted = ("active", "draft", "more", "fewer", "same")
    yield "decisions", _rows(sample.outcomes), ("active", "draft", "records")
    yield "set aside because", _rows(sample.reasons), ("reason", "active", "draft")
    yield "replaced values by entity", _rows(sample.entities), ("name", "operators", *counted)
    yield "replaced values by path", _rows(sample.paths), ("name", *counted)
    rules = f"rules, in {sample.explained} of {sample.differing} trajectories that differ"
    yield rules, _rows(sample.rules), ("entity", "rule", "active", "draft")
    obstacles = _rows(sample.training.obstacles)
    yield "trajectories that may not train", obstacles, ("reason", "active", "draft")
    yield (
        "token fidelity of model calls",
        _rows(sample.fidelity.pairs),
        ("active", "draft", "records"),
    )
    for example in sample.examples:
        shown = example.raw or example
        before = () if example.raw is None else ({"side": "raw", "text": example.raw.before},)
        rows = (
            *before,
            {"side": "active", "text": shown.active},
            {"side": "draft", "text": shown.draft},
        )
        title = f"{example.direction}: {', '.join(example.entities)} at {example.path}"
        yield title, rows, ("side", "text")


def _rows(values: Sequence[object]) -> Sequence[Row]:
    return [{name: getattr(value, name) for name in value.__slots__} for value in values]  # type: ignore[attr-defined]


def _table(title: str, rows: Sequence[Row], columns: Sequence[str]) -> str:
    from rich.console import Console

    buffer = io.StringIO()
    Console(file=buffer, width=_WIDTH).print(build_table(rows, columns, title=title))
    return buffer.getvalue().rstrip("\n")
