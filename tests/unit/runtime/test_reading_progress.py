"""A reader that stands still before the end of a partition is reported; an idle one is not."""

import pytest

from atdp.runtime.kafka_settings import KafkaSettings
from atdp.runtime.reading_progress import (
    Offsets,
    PartitionPlace,
    ProgressWatch,
    ReadingProgress,
)
from atdp.runtime.unreadable_batches import PartitionEntry

RAW = PartitionPlace("raw", 0)
OTHER = PartitionPlace("raw", 1)


def test_only_a_position_that_has_not_moved_for_the_time_is_reported() -> None:
    progress = ReadingProgress(after_s=60)
    assert progress.observe({RAW: 5, OTHER: 5}, {RAW: 3, OTHER: 5}, 0) == []
    assert progress.observe({RAW: 9, OTHER: 5}, {RAW: 3, OTHER: 5}, 59) == []
    (still,) = progress.observe({RAW: 9, OTHER: 6}, {RAW: 3, OTHER: 5}, 60)
    assert (still.place, still.position, still.end, still.since_s) == (RAW, 3, 9, 0)
    assert progress.observe({RAW: 9, OTHER: 6}, {RAW: 4, OTHER: 6}, 61) == []
    assert progress.observe({RAW: 9, OTHER: 6}, {RAW: 4, OTHER: 6}, 120) == []
    assert progress.observe({RAW: 9, OTHER: 6}, {RAW: 4, OTHER: 6}, 121) != []


def test_a_reader_without_any_position_stands_at_the_beginning() -> None:
    """As one that never became a member of its group."""
    progress = ReadingProgress(after_s=60)
    assert progress.observe({RAW: 1, OTHER: 0}, {}, 0) == []
    assert [each.place for each in progress.observe({RAW: 1, OTHER: 0}, {}, 60)] == [RAW]


class KnownProbe:
    """Gives one entry at every place, and counts the reads."""

    def __init__(self, entry: PartitionEntry | None) -> None:
        self.found = entry
        self.reads = 0

    def entry(self, _topic: str, _partition: int, _offset: int) -> PartitionEntry | None:
        self.reads += 1
        return self.found


def watch(monkeypatch: pytest.MonkeyPatch, entry: PartitionEntry | None) -> ProgressWatch:
    ends: Offsets = {RAW: 9}
    made = ProgressWatch(KafkaSettings("nowhere"), ["raw"], lambda: {RAW: 8})
    monkeypatch.setattr(made, "_ends", lambda: ends)
    monkeypatch.setattr(made, "_probe", KnownProbe(entry))
    return made


@pytest.mark.parametrize(
    "entry",
    [
        PartitionEntry(kind="record", offset=8),
        PartitionEntry(kind="unreadable", offset=6),
        PartitionEntry(kind="end", offset=8),
        None,
    ],
    ids=["a record", "an unreadable batch", "an open transaction", "silence"],
)
def test_whatever_is_left_is_a_problem_with_its_place(
    monkeypatch: pytest.MonkeyPatch, entry: PartitionEntry | None
) -> None:
    made = watch(monkeypatch, entry)
    made.look(0)
    assert made.problem() is None
    made.look(75)
    problem = made.problem() or ""
    assert "raw[0] is not read: the position has been 8 for 75 s" in problem
    assert "goes on to 9" in problem


def test_markers_of_transactions_are_nothing_to_read_and_are_looked_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    probe = KnownProbe(PartitionEntry(kind="end", offset=9))
    made = watch(monkeypatch, None)
    monkeypatch.setattr(made, "_probe", probe)
    for now_s in (0, 75, 85, 95):
        made.look(now_s)
        assert made.problem() is None
    assert probe.reads == 1


def test_the_partitions_of_another_reader_are_not_watched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = watch(monkeypatch, PartitionEntry(kind="record", offset=8))
    made._is_own = OTHER.__eq__
    made.look(0)
    made.look(75)
    assert made.problem() is None
    made._is_own = RAW.__eq__
    made.look(80)
    made.look(155)
    assert made.problem() is not None
