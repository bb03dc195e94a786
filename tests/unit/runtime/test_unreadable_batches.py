"""The end of a batch that cannot be read is found exactly, whatever lies behind it."""

import random
from dataclasses import dataclass

import pytest

from atdp.runtime.kafka_settings import KafkaSettings
from atdp.runtime.unreadable_batches import PartitionEntry, PartitionProbe, ProbeFailed

MOST_READS = 2 * 32 + 2
"""Twice the bits of the largest number of records in a batch, and the reads at both ends."""


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch of a partition: its offsets, and whether a consumer can read it."""

    first: int
    after: int
    readable: bool


class BatchesProbe(PartitionProbe):
    """Reads batches as a broker gives them: whole, for any offset that they hold."""

    def __init__(self, batches: list[Batch]) -> None:
        super().__init__(KafkaSettings("nowhere"))
        self.batches = batches
        self.reads = 0

    def entry(self, topic: str, partition: int, offset: int) -> PartitionEntry | None:
        self.reads += 1
        for batch in self.batches:
            if batch.after > offset:
                at = max(offset, batch.first)
                return (
                    PartitionEntry(kind="record", offset=at)
                    if batch.readable
                    else PartitionEntry(kind="unreadable", offset=batch.first)
                )
        return PartitionEntry(kind="end", offset=offset)


def random_batches(seed: int) -> list[Batch]:
    draw = random.Random(seed)
    batches, at = [], draw.randrange(1_000)
    for _ in range(draw.randrange(1, 30)):
        records = draw.choice([1, 1, 2, 3, draw.randrange(1, 2_000), 2**31 - 1])
        batches.append(Batch(at, at + records, draw.random() < 0.5))
        # Compaction and the markers of transactions leave offsets without a record.
        at += records + draw.choice([0, 0, 0, 1, 7])
    return batches


def _next_first(batches: list[Batch], batch: Batch) -> int:
    """Return the first offset behind a batch that another one holds, or the batch's end."""
    return min((each.first for each in batches if each.first >= batch.after), default=batch.after)


@pytest.mark.parametrize("seed", range(200))
def test_every_unreadable_batch_ends_before_the_next_record_that_can_be_read(seed: int) -> None:
    batches = random_batches(seed)
    probe = BatchesProbe(batches)
    for batch in batches:
        if batch.readable:
            continue
        probe.reads = 0
        found = probe.unreadable_batch("t", 0, batch.first, "why")
        assert found is not None
        assert (found.first, found.why) == (batch.first, "why")
        assert batch.after <= found.after <= _next_first(batches, batch)
        assert probe.reads <= MOST_READS


def test_without_the_first_offset_of_a_report_a_good_batch_would_be_passed_over() -> None:
    """Checks the check: two bad batches with a good one between them."""
    batches = [Batch(0, 4, False), Batch(4, 5, True), Batch(5, 20, False)]

    class Forgetful(BatchesProbe):
        def _is_within(self, topic: str, partition: int, offset: int, first: int) -> bool:
            entry = self.entry(topic, partition, offset)
            return entry is not None and entry.kind == "unreadable"

    careless, careful = Forgetful(batches), BatchesProbe(batches)
    lost, kept = (each.unreadable_batch("t", 0, 0, "why") for each in (careless, careful))
    assert lost is not None
    assert kept is not None
    assert (lost.after, kept.after) == (20, 4)
    assert kept.place == "t[0] offsets 0 to 3"


def test_a_batch_that_can_be_read_the_second_time_is_no_unreadable_one() -> None:
    assert BatchesProbe([Batch(0, 4, True)]).unreadable_batch("t", 0, 0, "why") is None


def test_nothing_is_passed_over_while_the_broker_does_not_answer() -> None:
    class Silent(BatchesProbe):
        def entry(self, topic: str, partition: int, offset: int) -> PartitionEntry | None:
            return None if offset else super().entry(topic, partition, offset)

    with pytest.raises(ProbeFailed):
        Silent([Batch(0, 4, False)]).unreadable_batch("t", 0, 0, "why")
