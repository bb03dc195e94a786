"""The gate signs what it writes, and takes nothing back that it did not sign."""

from dataclasses import dataclass, field

import pytest
from confluent_kafka import KafkaError, TopicPartition

from atdp.governance.decisions import OutputRecord
from atdp.governance.stage.place_reader import PlaceReader, RecordNotSigned
from atdp.runtime import OUTPUT_POSITION, RefusedRecord, SignedTopic
from atdp.schemas import REDELIVERY, REGOVERNED, TopicRole, header

from .memory_log import NOW, SETTINGS, MemoryWorkers
from .taught_trajectories import interleaved, trajectory

SIGNED: tuple[TopicRole, ...] = ("events_governed", "events_quarantine", "audit", "learned_values")


def test_every_record_of_the_gate_is_signed_for_its_topic(workers: MemoryWorkers) -> None:
    workers.log.send(interleaved(3))
    workers.log.send(trajectory(0)[:2], redelivery=True)
    workers.log.raw[1]._headers.clear()  # it goes to quarantine
    workers.run()
    for role in SIGNED:
        records = workers.log.records(role)
        assert records
        for each in records:
            problem = SETTINGS.signatures(role).problem(each.key, each.value, each.headers)
            assert problem is None
            elsewhere = SignedTopic(b"t" * 32, role).problem(each.key, each.value, each.headers)
            assert elsewhere == "wrong_signature"


def test_a_governed_record_names_the_place_of_its_raw_record_also_when_governed_again(
    workers: MemoryWorkers,
) -> None:
    workers.log.send(interleaved(2))
    workers.run()
    governed = workers.log.records("events_governed")
    first = [each for each in governed if header(each.headers, REGOVERNED) is None]
    places = [header(each.headers, OUTPUT_POSITION) for each in first]
    assert places == [b"raw/0/%d" % offset for offset in range(len(workers.log.raw))]
    again = [each for each in governed if header(each.headers, REGOVERNED) is not None]
    assert again
    assert {header(each.headers, OUTPUT_POSITION) for each in again} < set(places)
    assert header(governed[0].headers, REDELIVERY) is None


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A record of a topic of governance, or its end."""

    output: OutputRecord
    at: int
    is_end: bool = False

    def key(self) -> bytes:
        return self.output.key

    def value(self) -> bytes:
        return self.output.value

    def headers(self) -> list[tuple[str, bytes]]:
        return self.output.headers

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self.at

    def timestamp(self) -> tuple[int, int]:
        return 2, int(NOW.timestamp() * 1000)

    def error(self) -> KafkaError | None:
        return KafkaError(KafkaError._PARTITION_EOF) if self.is_end else None


@dataclass(slots=True)
class StoredTopic:
    """A consumer of one partition."""

    records: list[OutputRecord]
    at: int = 0
    refused: list[RefusedRecord] = field(default_factory=list)

    def assign(self, places: list[TopicPartition]) -> None:
        self.at = max(0, places[0].offset)

    def poll(self, _: float) -> StoredMessage:
        is_end = self.at == len(self.records)
        output = OutputRecord(key=b"", value=b"", headers=[]) if is_end else self.records[self.at]
        message = StoredMessage(output, self.at, is_end)
        self.at += not is_end
        return message

    def reader(self, monkeypatch: pytest.MonkeyPatch) -> PlaceReader:
        monkeypatch.setattr("atdp.governance.stage.place_reader.Consumer", lambda _: self)
        monkeypatch.setattr(PlaceReader, "_end", lambda *_: len(self.records))
        monkeypatch.setattr(PlaceReader, "_partitions", lambda *_: {0})
        return PlaceReader(SETTINGS, self.refused.extend)


def signed(role: TopicRole, key: bytes, value: bytes) -> OutputRecord:
    headers = SETTINGS.signatures(role).signed(key, value)
    return OutputRecord(key=key, value=value, headers=headers)


def test_learned_values_that_governance_did_not_write_are_not_taken_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    genuine = signed("learned_values", b"acme/t", b"state")
    forged = [
        OutputRecord(key=b"acme/t", value=b"forgotten", headers=[]),
        OutputRecord(key=b"acme/t", value=b"", headers=[]),
        OutputRecord(key=b"acme/t", value=b"forgotten", headers=genuine.headers),
        OutputRecord(key=b"globex/t", value=b"state", headers=genuine.headers),
    ]
    topic = StoredTopic([genuine, *forged])
    states = list(topic.reader(monkeypatch).states(0))
    assert [(state.key, state.value) for state in states] == [(b"acme/t", b"state")]
    assert [(each.offset, each.reason) for each in topic.refused] == [
        (1, "unsigned"),
        (2, "unsigned"),
        (3, "wrong_signature"),
        (4, "wrong_signature"),
    ]
    monkeypatch.setattr(SignedTopic, "refusal", lambda *_: None)  # the check off
    assert len(list(topic.reader(monkeypatch).states(0))) == 5


def test_no_order_and_no_person_gets_a_quarantine_record_that_governance_did_not_write(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    genuine = signed("events_quarantine", b"acme", b"sealed")
    topic = StoredTopic([genuine, OutputRecord(key=b"acme", value=b"evil", headers=[])])
    reader = topic.reader(monkeypatch)
    assert reader.quarantined(0, 0) == b"sealed"
    with pytest.raises(RecordNotSigned, match="did not write"):
        reader.quarantined(0, 1)
    assert [each.reason for each in topic.refused] == ["unsigned"]
