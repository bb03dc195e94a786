"""The records in flight of a spool, when the receiver asks for some of them again."""

from atdp.sdk.in_flight import InFlight
from atdp.sdk.memory_spool import MemorySpool
from atdp.sdk.record_framing import SpoolRecord


def test_records_that_were_settled_before_are_passed_without_a_receipt() -> None:
    spool = MemorySpool(limit_bytes=1000)
    for number in range(4):
        spool.append(SpoolRecord(record_id=bytes([number] * 16), key=b"k", value=b"12345"))
    queue = InFlight(spool, adopted=False)
    first, *others = [start for start, _ in queue.unsent(1000)]
    for start in others:
        queue.settle(start)
    queue.rewind()  # the receiver asked for the first record again
    sent_again = [start for start, _ in queue.unsent(10)]
    assert sent_again == [first]
    queue.settle(first)
    queue.advance()
    while not queue.drained:
        position = queue.pending_bytes
        assert [*queue.unsent(10)] == [], "they are settled"
        assert queue.pending_bytes < position
    assert spool.cursor == spool.end
