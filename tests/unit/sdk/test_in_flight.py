"""The records in flight of a spool, when the receiver asks for some of them again."""

from collections.abc import Sequence

import pytest

from atdp.sdk.in_flight import InFlight
from atdp.sdk.memory_spool import MemorySpool
from atdp.sdk.record_framing import SpoolRecord


def test_records_that_were_settled_before_are_passed_without_a_receipt() -> None:
    spool = MemorySpool(limit_bytes=1000)
    for number in range(4):
        spool.append(SpoolRecord(record_id=bytes([number] * 16), key=b"k", value=b"12345"))
    queue = InFlight(spool, adopted=False)
    sent: list[int] = []

    def submit(records: Sequence[tuple[int, SpoolRecord]]) -> int:
        sent.extend(start for start, _ in records)
        return len(records)

    queue.send(1000, submit)
    first, *others = sent
    for start in others:
        queue.settle(start)
    queue.rewind()  # the receiver asked for the first record again
    sent.clear()
    queue.send(10, submit)
    assert sent == [first]
    queue.settle(first)
    queue.advance()
    while not queue.drained:
        pending = queue.pending_bytes
        assert queue.send(10, submit) == 0, "they are settled"
        assert queue.pending_bytes < pending
    assert spool.cursor == spool.end


def test_records_that_the_sender_has_no_room_for_are_given_again() -> None:
    spool = MemorySpool(limit_bytes=1000)
    for number in range(5):
        spool.append(SpoolRecord(record_id=bytes([number] * 16), key=b"k", value=b"12345"))
    queue = InFlight(spool, adopted=False)
    given: list[list[int]] = []

    def take_two(records: Sequence[tuple[int, SpoolRecord]]) -> int:
        given.append([record.record_id[0] for _, record in records])
        assert not any(record.redelivery for _, record in records)
        return min(2, len(records))

    assert [queue.send(1000, take_two) for _ in range(4)] == [2, 2, 1, 0]
    assert given == [[0, 1, 2, 3, 4], [2, 3, 4], [4]]


def test_what_a_sender_that_raised_may_have_sent_goes_again_as_redelivery() -> None:
    spool = MemorySpool(limit_bytes=1000)
    for number in range(3):
        spool.append(SpoolRecord(record_id=bytes([number] * 16), key=b"k", value=b"12345"))
    queue = InFlight(spool, adopted=False)

    def fail(_: Sequence[tuple[int, SpoolRecord]]) -> int:
        raise RuntimeError("the second record is too much")

    with pytest.raises(RuntimeError, match="second record"):
        queue.send(12, fail)
    queue.rewind()
    again: list[bool] = []

    def submit(records: Sequence[tuple[int, SpoolRecord]]) -> int:
        again.extend(record.redelivery for _, record in records)
        return len(records)

    assert queue.send(1000, submit) == 3
    assert again == [True, True, False]
