"""Records whose senders gave them wrong offsets neither hide others nor come twice."""

from dataclasses import dataclass, field

import pytest

from atdp.governance.stage.raw_offsets import Detour, RawOffsets
from atdp.runtime import BatchHeader, ProbeFailed

PLACE = ("raw", 0)
MARKER, TRANSACTIONAL = 0x30, 0x10


@dataclass(slots=True)
class MemoryBatches:
    """The batches of one partition: first and last offset, and attributes."""

    batches: list[tuple[int, int, int]]
    answers: bool = True
    reads: list[int] = field(default_factory=list)

    def at(self, _topic: str, _partition: int, offset: int) -> BatchHeader | None:
        self.reads.append(offset)
        if not self.answers:
            raise ProbeFailed("silence")
        if self.batches and offset < self.batches[0][0]:
            return None
        for first, last, attributes in self.batches:
            if last >= offset:
                return BatchHeader(first, last, attributes, b"")
        return None


def offsets(batches: MemoryBatches, start: int = 0) -> RawOffsets:
    return RawOffsets(batches, lambda *_: start)


def passed_over(found: Detour | None) -> tuple[int, int, int]:
    assert found is not None
    assert found.batch is not None
    return found.batch.first, found.batch.after, found.offset


def test_offsets_in_order_are_never_looked_up() -> None:
    batches = MemoryBatches([])
    checked = offsets(batches)
    assert [checked.detour(PLACE, offset) for offset in range(100)] == [None] * 100
    assert batches.reads == []


@pytest.mark.parametrize(
    ("claimed", "rest"),
    [
        ([1, 5_001], (2, 3, 3)),
        ([1, 1], (2, 3, 3)),
        ([1, 0], (2, 3, 3)),
        ([5_001], (1, 3, 3)),
        ([0], (1, 3, 3)),
        ([2], (1, 3, 3)),
    ],
    ids=["far ahead", "the same", "before", "first one ahead", "first one before", "one missing"],
)
def test_the_rest_of_a_batch_with_wrong_offsets_is_passed_over(
    claimed: list[int], rest: tuple[int, int, int]
) -> None:
    checked = offsets(MemoryBatches([(0, 0, 0), (1, 2, 0), (3, 9_000, 0)]))
    assert checked.detour(PLACE, 0) is None
    *good, last = claimed
    assert [checked.detour(PLACE, each) for each in good] == [None] * len(good)
    assert passed_over(checked.detour(PLACE, last)) == rest
    checked.went_to(PLACE, rest[2])
    assert checked.detour(PLACE, 3) is None


@pytest.mark.parametrize(
    "between",
    [[(1, 1, MARKER)], [(1, 3, TRANSACTIONAL), (4, 4, MARKER)], []],
    ids=["a marker", "an aborted transaction", "compacted"],
)
def test_offsets_without_records_are_no_hole(between: list[tuple[int, int, int]]) -> None:
    checked = offsets(MemoryBatches([(0, 0, 0), *between, (7, 9, 0)]))
    assert [checked.detour(PLACE, each) for each in (0, 7, 8, 9)] == [None] * 4


def test_what_retention_has_deleted_is_no_hole_but_a_claim_behind_the_end_is_one() -> None:
    checked = offsets(MemoryBatches([(50, 60, 0)]), start=3)
    assert checked.detour(PLACE, 50) is None
    assert checked.detour(PLACE, 51) is None
    emptied = offsets(MemoryBatches([]), start=3)
    assert emptied.detour(PLACE, 50) == Detour(3)


def test_a_record_that_cannot_be_checked_is_read_again() -> None:
    batches = MemoryBatches([(0, 0, 0), (1, 2, 0)], answers=False)
    checked = offsets(batches)
    assert checked.detour(PLACE, 2) == Detour(0)
    assert checked.silent(PLACE) is None
