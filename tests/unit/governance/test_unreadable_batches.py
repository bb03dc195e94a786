"""A batch that cannot be read is set aside once, as a whole, and nothing else is."""

import random
from collections import Counter
from typing import Any

import pytest
from confluent_kafka import KafkaError

from atdp.governance.errors import HomeUnavailable, SecretsError
from atdp.governance.quarantine import unseal
from atdp.governance.stage.loop import StageReports
from atdp.governance.stage.place_reader import BatchUnreadable, PlaceReader
from atdp.schemas import TopicRole, decode_record

from .fake_stage import FakeMessage
from .memory_log import SETTINGS, MemoryWorkers
from .taught_trajectories import interleaved

BATCHES = {2: 1, 7: 5, 12: 2}
"""Position among the events → records of an unreadable batch there."""


def send(workers: MemoryWorkers) -> dict[int, int]:
    """Send events with unreadable batches between; return first and last offset of each batch."""
    ranges = {}
    for number, event in enumerate(interleaved(3)):
        if count := BATCHES.get(number):
            first = len(workers.log.raw)
            ranges[first] = first + count - 1
            workers.log.add_unreadable(count)
            if number == 12:
                ranges[first + count] = first + count
                workers.log.add_unreadable(1)
        workers.log.send([event])
    return ranges


def decided(workers: MemoryWorkers, role: TopicRole) -> list[dict[str, Any]]:
    return [decode_record(record.value)[1] for record in workers.log.records(role)]


def expected(ranges: dict[int, int]) -> Counter[tuple[int, str]]:
    return Counter(
        {(first, f"unreadable_batch:{first}-{last}"): 1 for first, last in ranges.items()}
    )


def refused(workers: MemoryWorkers) -> Counter[tuple[int, str]]:
    return Counter(
        (audit["source_offset"], audit["reason"])
        for audit in decided(workers, "audit")
        if audit["decision"] == "quarantined"
    )


def first_decisions(workers: MemoryWorkers) -> Counter[int]:
    """Return the readable records' first decisions, by offset."""
    return Counter(
        audit["source_offset"] for audit in decided(workers, "audit") if audit["reason"] is None
    )


@pytest.mark.parametrize("seed", range(6))
def test_an_unreadable_batch_has_one_quarantine_and_one_audit_record_wherever_workers_die(
    workers: MemoryWorkers, seed: int
) -> None:
    chance = random.Random(seed)
    workers.settings = {"batch_records": 5, "batch_bytes": chance.choice([1, 3_000, 64_000_000])}
    workers.log.is_killed = lambda _: chance.random() < 0.03
    ranges = send(workers)
    assert workers.run() > 1
    assert refused(workers) == expected(ranges)
    assert set(first_decisions(workers).values()) == {1}
    assert len(first_decisions(workers)) == len(interleaved(3))

    records = decided(workers, "events_quarantine")
    assert [(each["reason"], each["payload_encrypted"]) for each in records] == [
        ("unreadable_batch", b"")
    ] * len(ranges)
    assert all(f"to {ranges[each['source_offset']]} cannot" in each["detail"] for each in records)
    with pytest.raises(SecretsError, match="was not kept"):
        unseal(workers.governor.secrets, records[0])


def test_without_transactions_the_same_deaths_record_a_batch_twice(workers: MemoryWorkers) -> None:
    """Checks the check."""
    worst = 0
    for seed in range(4):
        chance = random.Random(seed)
        workers.atomic = False
        workers.settings = {"batch_records": 5}
        workers.log.is_killed = lambda _, chance=chance: chance.random() < 0.1  # type: ignore[misc]
        send(workers)
        workers.run()
        worst = max(worst, *refused(workers).values())
    assert worst > 1


def test_unreadable_orders_are_not_carried_out_and_pass(workers: MemoryWorkers) -> None:
    workers.log.add_unreadable(3)
    stage = workers.worker()
    stage._orders_topic = "raw"
    assert stage.step() == 1
    assert workers.log.offset == 3
    (audit,) = decided(workers, "audit")
    assert (audit["decision"], audit["reason"]) == ("not_carried_out", "unreadable_batch:0-2")
    assert decided(workers, "events_quarantine") == []


class ReportMessage(FakeMessage):
    """A message, or the report of an unreadable batch."""

    def __init__(self, offset: int, *, bad: bool = False) -> None:
        super().__init__(0, offset)
        self.bad = bad

    def error(self) -> KafkaError | None:
        return KafkaError(KafkaError._BAD_COMPRESSION) if self.bad else None


class PlacesConsumer:
    """A partition of ten records; `bad` are those in an unreadable batch (first, after)."""

    def __init__(self, bad: tuple[int, int]) -> None:
        self.bad = bad
        self.at = 0

    def assign(self, places: list[Any]) -> None:
        self.at = max(0, places[0].offset)

    def poll(self, _: float) -> ReportMessage:
        if self.bad[0] <= self.at < self.bad[1]:
            return ReportMessage(self.bad[0], bad=True)
        self.at += 1
        return ReportMessage(self.at - 1)


def reader(bad: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> PlaceReader:
    made = PlaceReader(SETTINGS)
    made._consumer = PlacesConsumer(bad)
    monkeypatch.setattr(made, "_end", lambda *_: 10)
    return made


def test_a_record_behind_an_unreadable_batch_is_read_again_and_one_within_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    places = reader((3, 6), monkeypatch)
    found = [places.raw(0, offset) for offset in (1, 8, 2, 6, 4, 9, 3, 5)]
    assert [None if raw is None else raw.offset for raw in found] == [
        1,
        8,
        2,
        6,
        None,
        9,
        None,
        None,
    ]


def test_unreadable_learned_values_halt_governance(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without them, values that a trajectory has taught would stay in its later events."""
    with pytest.raises(HomeUnavailable, match=r"raw\[0\] cannot be read from the offset 3"):
        list(reader((3, 6), monkeypatch)._all("learned_values", 0))
    with pytest.raises(BatchUnreadable):
        list(reader((0, 6), monkeypatch).states(0))


def test_a_halt_for_what_a_record_needs_lasts_until_a_transaction_commits(
    workers: MemoryWorkers, monkeypatch: pytest.MonkeyPatch
) -> None:
    workers.log.send(interleaved(1)[:1])
    stage = workers.worker()
    states: list[str | None] = []
    stage._reports = StageReports(state=states.append)
    decide = workers.governor.decide

    def unavailable(*_: object) -> None:
        raise HomeUnavailable("learned values cannot be read")

    monkeypatch.setattr(type(workers.governor), "decide", unavailable)
    monkeypatch.setattr(stage._consumer._consumer, "pause", lambda _: None, raising=False)
    for _ in range(3):
        assert stage.step() == 0
    assert states == ["learned values cannot be read"]
    monkeypatch.setattr(type(workers.governor), "decide", lambda _, *rest: decide(*rest))
    assert stage.step() == 1
    assert states == ["learned values cannot be read", None]
