"""A transaction ends by time or bytes, with what is governed; the rest is read again, and nothing is passed over."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from prometheus_client import CollectorRegistry

from atdp.governance.errors import HomeUnavailable
from atdp.governance.gate import Decided, Output
from atdp.governance.stage.loop import Stage
from atdp.governance.stage.metrics import StageMetrics
from atdp.governance.stage.settings import StageSettings
from atdp.runtime.kafka_settings import KafkaSettings

NOW = datetime(2026, 11, 21, tzinfo=UTC)


class FakeMessage:
    def __init__(self, partition: int, offset: int) -> None:
        self._at = partition, offset

    def value(self) -> bytes:
        return b"v"

    def partition(self) -> int:
        return self._at[0]

    def offset(self) -> int:
        return self._at[1]

    def topic(self) -> str:
        return "raw"

    def headers(self) -> None:
        return None

    def timestamp(self) -> tuple[int, int]:
        return 1, 0

    def error(self) -> None:
        return None


class FakeConsumer:
    """Two partitions of ten records each, read in turns; what stands at a position comes again after a seek."""

    def __init__(self) -> None:
        self.positions = {0: 0, 1: 0}
        self.committed_offsets: list[TopicPartition] = []
        self.closed = False
        self.paused = False

    def consume(self, count: int, _wait_s: float) -> list[FakeMessage]:
        if self.paused:
            return []
        found: list[FakeMessage] = []
        while len(found) < count and any(position < 10 for position in self.positions.values()):
            partition = min(self.positions, key=lambda each: self.positions[each])
            found.append(FakeMessage(partition, self.positions[partition]))
            self.positions[partition] += 1
        return found

    def seek(self, to: TopicPartition) -> None:
        self.positions[to.partition] = max(0, to.offset)

    def committed(self, *_: object) -> list[TopicPartition]:
        return self.committed_offsets

    def assignment(self) -> list[TopicPartition]:
        return []

    def pause(self, _: object) -> None:
        self.paused = True

    def resume(self, _: object) -> None:
        self.paused = False

    def position(self, *_: object) -> list[TopicPartition]:
        return []

    def consumer_group_metadata(self) -> None:
        return None

    def close(self) -> None:
        self.closed = True

    def subscribe(self, _: object) -> None:
        return None


class FakeWrites:
    """Remembers what was committed; a write outside a transaction is an error."""

    def __init__(self) -> None:
        self.open: list[Output] | None = None
        self.committed: list[list[Output]] = []
        self.offsets: list[dict[int, int]] = []

    def start(self) -> None: ...

    def begin(self) -> None:
        self.open = []

    def write(self, _topic: str, _partition: int, output: Output) -> None:
        assert self.open is not None
        self.open.append(output)

    def commit(self, offsets: Sequence[TopicPartition], _group: Any) -> None:
        assert self.open is not None
        self.committed.append(self.open)
        self.offsets.append({each.partition: each.offset for each in offsets})
        self.open = None

    def abort(self) -> None:
        self.open = None


class FakeGate:
    class policies:
        @staticmethod
        def refresh() -> bool:
            return False

    def check(self) -> None:
        return None

    def __init__(self, on_decide: Callable[[], None], size: int) -> None:
        self.on_decide = on_decide
        self.size = size

    def decide(self, raw: Any, _now: datetime) -> Decided:
        self.on_decide()
        output = Output(
            key=f"{raw.partition}/{raw.offset}".encode(), value=b"x" * self.size, headers=[]
        )
        return Decided(decision="passed", reason=None, tenant="acme", found=(), audit=output)


def stage(
    monkeypatch: pytest.MonkeyPatch, *, takes_s: float = 0.0, size: int = 1, **settings: Any
) -> tuple[Stage, FakeConsumer, FakeWrites]:
    clock = [0.0]

    def decide() -> None:
        clock[0] += takes_s

    consumer, writes = FakeConsumer(), FakeWrites()
    monkeypatch.setattr("atdp.governance.stage.loop.Consumer", lambda _: consumer)
    monkeypatch.setattr("atdp.governance.stage.loop.time.monotonic", lambda: clock[0])
    made = Stage(
        StageSettings(kafka=KafkaSettings("nowhere"), **settings),
        FakeGate(decide, size),  # type: ignore[arg-type]
        writes,
        StageMetrics(CollectorRegistry()),
        now=lambda: NOW,
    )
    return made, consumer, writes


def run(made: Stage) -> list[int]:
    counts = []
    while count := made.step():
        counts.append(count)
    return counts


@pytest.mark.parametrize(
    ("bound", "counts"),
    [
        ({}, [20]),
        ({"takes_s": 4.0, "batch_s": 10.0}, [3] * 6 + [2]),
        ({"takes_s": 60.0, "batch_s": 10.0}, [1] * 20),
        ({"size": 400, "batch_bytes": 1_000}, [3] * 6 + [2]),
        ({"size": 4_000, "batch_bytes": 1_000}, [1] * 20),
    ],
)
def test_every_record_is_committed_once_in_order_however_small_the_transactions(
    monkeypatch: pytest.MonkeyPatch, bound: dict[str, Any], counts: list[int]
) -> None:
    made, _, writes = stage(monkeypatch, **bound)
    assert run(made) == counts
    keys = [output.key.decode() for batch in writes.committed for output in batch]
    for partition in (0, 1):
        assert [key for key in keys if key.startswith(f"{partition}/")] == [
            f"{partition}/{offset}" for offset in range(10)
        ]
    done = {0: 0, 1: 0}
    for batch, offsets in zip(writes.committed, writes.offsets, strict=True):
        for output in batch:
            done[int(output.key[:1])] += 1
        assert all(done[partition] == offset for partition, offset in offsets.items())


def test_without_going_back_records_would_be_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guard of the guard: the same run without the seek loses records."""
    made, _, writes = stage(monkeypatch, takes_s=4.0)
    monkeypatch.setattr(made, "_read_again", lambda _: None)
    run(made)
    assert sum(map(len, writes.committed)) < 20


def test_an_offset_that_could_not_be_asked_for_is_not_the_beginning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made, consumer, _ = stage(monkeypatch)
    monkeypatch.setattr("atdp.governance.stage.loop.time.sleep", lambda _: None)

    class Failed:
        topic, partition, offset = "raw", 0, -1001
        error = KafkaError(KafkaError.NOT_COORDINATOR)

    consumer.positions = {0: 7, 1: 7}
    consumer.committed_offsets = [Failed()]
    made._abort_and_rewind()
    assert consumer.closed
    assert consumer.positions == {0: 7, 1: 7}
    consumer.closed = False
    consumer.committed_offsets = [TopicPartition("raw", 0, 3)]
    made._abort_and_rewind()
    assert consumer.positions == {0: 3, 1: 7}

    def refuse(_: TopicPartition) -> None:
        raise KafkaException(KafkaError(KafkaError._STATE))

    monkeypatch.setattr(consumer, "seek", refuse)
    made._abort_and_rewind()
    assert consumer.closed


def test_a_key_store_that_fails_stops_the_gate_and_loses_and_sets_aside_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made, consumer, writes = stage(monkeypatch)
    told: list[str | None] = []
    made._on_state = told.append
    gate = made._gate
    whole, decided = gate.decide, 0

    def fails_in_the_middle(raw: Any, now: datetime) -> Decided:
        nonlocal decided
        decided += 1
        if decided > 5:
            raise HomeUnavailable("the key store cannot be read")
        return whole(raw, now)

    def still_gone() -> None:
        raise HomeUnavailable("the key store cannot be read")

    consumer.committed_offsets = [TopicPartition("raw", 0, -1001), TopicPartition("raw", 1, -1001)]
    monkeypatch.setattr(gate, "decide", fails_in_the_middle)
    assert made.step() == 0
    monkeypatch.setattr(gate, "check", still_gone)
    for _ in range(3):
        assert made.step() == 0
    assert (writes.committed, consumer.paused) == ([], True)
    assert told == ["the key store cannot be read"]

    monkeypatch.setattr(gate, "check", lambda: None)
    monkeypatch.setattr(gate, "decide", whole)
    assert run(made) == [20]
    assert told == ["the key store cannot be read", None]
