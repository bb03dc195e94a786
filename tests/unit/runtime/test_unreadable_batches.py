"""A batch that cannot be read ends where the broker says, whatever lies behind it."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from confluent_kafka import KafkaError

from atdp.runtime import BatchHeader, ProbeFailed
from atdp.runtime.kafka_headers import record_headers
from atdp.runtime.kafka_settings import KafkaSettings
from atdp.runtime.unreadable_batches import PartitionEntry, PartitionProbe

UNREADABLE = PartitionEntry(kind="unreadable", offset=4)


@dataclass
class Probe(PartitionProbe):
    """Reads a partition with a batch at the offsets 4 to 8 and silence everywhere else."""

    at_four: PartitionEntry | None = UNREADABLE
    header: BatchHeader | None = field(default_factory=lambda: BatchHeader(4, 8, 4, b""))

    def __post_init__(self) -> None:
        super().__init__(KafkaSettings("nowhere"))
        self._batches: Any = self

    def at(self, _topic: str, _partition: int, offset: int) -> BatchHeader | None:
        assert offset == 4
        return self.header

    def entry(self, _topic: str, _partition: int, offset: int) -> PartitionEntry | None:
        return self.at_four if offset == 4 else None


class Report:
    """The report of a consumer about the batch."""

    def error(self) -> KafkaError:
        return KafkaError(KafkaError._BAD_COMPRESSION)

    def topic(self) -> str:
        return "t"

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return 4


def test_an_unreadable_batch_ends_at_the_brokers_last_offset_whatever_is_behind_it() -> None:
    """A batch that the client passes over in silence may be behind it."""
    batch = Probe().unreadable_batch("t", 0, 4, "why")
    assert batch is not None
    assert (batch.first, batch.after, batch.why) == (4, 9, "why")
    assert batch.place == "t[0] offsets 4 to 8"


def test_a_batch_that_can_be_read_now_or_is_deleted_is_no_unreadable_one() -> None:
    readable = PartitionEntry(kind="record", offset=4)
    gone = [None, BatchHeader(9, 9, 0, b"")]
    for probe in [Probe(readable), *(Probe(header=each) for each in gone)]:
        assert probe.unreadable_batch("t", 0, 4, "why") is None


def test_nothing_is_passed_over_while_the_broker_does_not_answer() -> None:
    with pytest.raises(ProbeFailed):
        Probe(None).unreadable_batch("t", 0, 4, "why")
    message: Any = Report()
    assert Probe(None).batch_of(message) is None
    assert Probe().batch_of(message) is not None


class NamelessHeader:
    """A message of confluent-kafka with a header whose name is no UTF-8."""

    def __init__(self, cause: Exception) -> None:
        self.cause = cause
        self.known: list[tuple[str, bytes]] | None = None

    def headers(self) -> list[tuple[str, bytes]]:
        if self.known is None:
            raise SystemError("returned a result with an exception set") from self.cause
        return self.known

    def set_headers(self, known: list[tuple[str, bytes]]) -> None:
        self.known = known


def test_headers_that_cannot_be_read_are_none_and_are_not_asked_for_again() -> None:
    """The second call of the client's own `headers` gives a list whose use ends the process."""
    message: Any = NamelessHeader(UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"))
    assert list(record_headers(message)) == []
    assert message.headers() == []
    broken: Any = NamelessHeader(MemoryError())
    with pytest.raises(SystemError):
        record_headers(broken)
