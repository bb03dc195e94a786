"""The recorder counts, signs and delivers events.

It never raises into its host, prints, or loses an event without counting it.
"""

import asyncio
import logging
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import atdp.sdk as sdk
from atdp.schemas import (
    Action,
    Agent,
    Event,
    Generation,
    Message,
    Reward,
    Sampling,
    Source,
    decode,
    new_event_id,
)
from atdp.sdk import ConfigurationError, KafkaSender, MemorySender, Recorder
from atdp.sdk.event_intake import SingleEvent
from atdp.sdk.file_area import MappedArea
from atdp.sdk.record_framing import SpoolRecord
from atdp.sdk.senders.port import Receipt

API_KEY = "atdp_0123456789ab_secret-of-the-tests"
MakeRecorder = Callable[..., Recorder]


def event(text: str = "hello", **fields: Any) -> Event:
    defaults: dict[str, Any] = {
        "event_id": new_event_id(),
        "tenant_id": "acme",
        "trajectory_id": "t-1",
        "producer_id": "p",
        "seq": 0,
        "occurred_at": datetime.now(UTC),
        "agent": Agent(id="a"),
        "source": Source(format="test"),
        "body": Action(type="message", message=Message(role=text)),
    }
    return Event(**defaults | fields)


# Delivery.


def test_an_emitted_event_arrives_as_it_was(recorder: Recorder, sender: MemorySender) -> None:
    sent = event()
    assert recorder.emit_event(sent) == sent.event_id
    assert recorder.flush().fates == {sent.event_id: "delivered"}
    assert sender.events == [sent]
    assert sender.records[0].key == b"acme/t-1"


def test_a_record_on_its_way_holds_neither_signature_nor_secret(
    recorder: Recorder, sender: MemorySender
) -> None:
    recorder.emit_event(event())
    recorder.flush()
    (record,) = sender.records
    assert b"secret-of-the-tests" not in repr(record).encode()
    assert b"0123456789ab" not in repr(record).encode()
    assert not record.redelivery


def test_an_importer_can_say_that_an_event_may_have_been_sent_before(
    recorder: Recorder, sender: MemorySender
) -> None:
    recorder.emit_event(event("first"))
    recorder.emit_event(event("again"), redelivery=True)
    recorder.flush()
    assert [record.redelivery for record in sender.records] == [False, True]


def test_the_tally_counts_what_was_accepted(recorder: Recorder) -> None:
    for number in range(7):
        recorder.emit_event(event(str(number)))
    assert recorder.emitted == 7
    report = recorder.flush()
    assert (report.delivered, report.pending, report.complete) == (7, 0, True)


def test_events_of_many_threads_all_arrive_numbered_without_gaps(
    recorder: Recorder, sender: MemorySender
) -> None:
    trajectory = recorder.trajectory()
    threads = [
        threading.Thread(target=lambda: [trajectory.act_message("x") for _ in range(100)])
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert recorder.flush().complete
    assert [event.seq for event in sender.events] == list(range(401))


def test_events_of_async_tasks_go_to_their_own_trajectory(
    recorder: Recorder, sender: MemorySender
) -> None:
    async def agent(name: str) -> None:
        async with recorder.trajectory(trajectory_id=name):
            await asyncio.sleep(0)
            current = sdk.current_trajectory()
            assert current is not None
            current.act_message(name)

    async def main() -> None:
        await asyncio.gather(*(agent(f"t-{number}") for number in range(5)))

    asyncio.run(main())
    recorder.flush()
    text_of = {
        event.trajectory_id: event.body.message.text
        for event in sender.events
        if isinstance(event.body, Action) and event.body.message
    }
    assert text_of == {f"t-{number}": f"t-{number}" for number in range(5)}


def test_a_signal_handler_may_emit_while_its_thread_is_emitting(
    recorder: Recorder, sender: MemorySender, monkeypatch: pytest.MonkeyPatch
) -> None:
    trajectory = recorder.trajectory().start()
    real = MappedArea.put_behind
    interrupted: list[bool] = []

    def interrupted_write(area: MappedArea, at: int, *parts: bytes) -> None:
        real(area, at, *parts)
        if threading.current_thread() is threading.main_thread() and not interrupted:
            interrupted.append(True)
            signal.raise_signal(signal.SIGUSR1)  # arrives in the middle of an append

    before = signal.signal(signal.SIGUSR1, lambda *_: trajectory.act_message("from the handler"))
    try:
        monkeypatch.setattr(MappedArea, "put_behind", interrupted_write)
        trajectory.act_message("interrupted")
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert recorder.flush().complete
    assert [event.seq for event in sender.events] == [0, 1, 2]


# Retry, refusal, redelivery.


def test_what_the_receiver_sends_back_goes_again_marked_as_redelivery(
    make_recorder: MakeRecorder,
) -> None:
    attempts: Counter[bytes] = Counter()

    def fail_first(record: SpoolRecord) -> sdk.Verdict:
        attempts[record.record_id] += 1
        return "retry" if attempts[record.record_id] == 1 else "delivered"

    sender = MemorySender(verdict=fail_first)
    recorder = make_recorder(sender=sender)
    for number in range(5):
        recorder.emit_event(event(str(number)))
    report = recorder.flush(30)
    assert (report.delivered, report.pending) == (5, 0)
    assert len({record.record_id for record in sender.records}) == 5
    assert all(record.redelivery for record in sender.records if attempts[record.record_id] > 1)


def test_a_refused_event_is_failed_with_its_reason_and_the_others_arrive(
    make_recorder: MakeRecorder,
) -> None:
    sender = MemorySender(
        verdict=lambda record: "refused" if b"bad" in record.value else "delivered"
    )
    recorder = make_recorder(sender=sender)
    good, bad = recorder.emit_event(event("good")), recorder.emit_event(event("bad"))
    report = recorder.flush()
    assert report.fates == {good: "delivered", bad: "failed"}
    assert report.reasons == {"refused by the receiver: the verdict was set to refused": 1}
    assert not report.complete


def test_while_the_receiver_is_down_events_are_pending_and_nothing_blocks(
    make_recorder: MakeRecorder,
) -> None:
    sender = MemorySender(verdict=lambda _: "retry")
    recorder = make_recorder(sender=sender)
    event_id = recorder.emit_event(event())
    report = recorder.flush(timeout_s=0)
    assert (report.fates[event_id], report.pending, report.complete) == ("pending", 1, False)
    sender.verdict = lambda _: "delivered"
    assert recorder.flush(30).fates[event_id] == "delivered"


def test_what_a_closed_recorder_could_not_deliver_is_delivered_by_the_next_one_as_redelivery(
    make_recorder: MakeRecorder, sender: MemorySender
) -> None:
    down = make_recorder(sender=MemorySender(verdict=lambda _: "retry"))
    sent = [event(str(number)) for number in range(3)]
    for each in sent:
        down.emit_event(each)
    down.close(timeout_s=0)
    report = make_recorder(sender=sender).flush()
    assert (report.recovered, report.recovering_bytes, report.delivered) == (3, 0, 0)
    assert [decode(record.value) for record in sender.records] == sent
    assert all(record.redelivery for record in sender.records)


def test_a_sender_that_raises_does_not_stop_delivery(make_recorder: MakeRecorder) -> None:
    raised: list[bool] = []

    def raise_once(record: SpoolRecord) -> sdk.Verdict:
        if not raised:
            raised.append(True)
            raise RuntimeError("a bug in a sender")
        return "delivered"

    recorder = make_recorder(sender=MemorySender(verdict=raise_once))
    recorder.emit_event(event())
    assert recorder.flush(30).complete


def test_a_sender_that_cannot_be_reset_does_not_stop_delivery(make_recorder: MakeRecorder) -> None:
    class BrokenSender(MemorySender):
        resets = 0

        def poll(self, timeout_s: float) -> list[Receipt]:
            if not self.resets:
                raise RuntimeError("a bug in a sender")
            return super().poll(timeout_s)

        def reset(self) -> None:
            self.resets += 1
            super().reset()
            raise RuntimeError("another bug in a sender")

    recorder = make_recorder(sender=BrokenSender())
    recorder.emit_event(event())
    assert recorder.flush(30).complete


# Losses are counted and said once.


def test_a_full_spool_drops_counts_and_says_so_once(
    make_recorder: MakeRecorder, caplog: pytest.LogCaptureFixture
) -> None:
    recorder = make_recorder(sender=MemorySender(verdict=lambda _: "retry"), spool_limit_bytes=4096)
    with caplog.at_level(logging.WARNING, logger="atdp.sdk"):
        for number in range(200):
            recorder.emit_event(event(str(number)))
    report = recorder.flush(0)
    assert report.pending == recorder.emitted < 200
    assert report.dropped == 200 - recorder.emitted
    assert report.reasons == {"the spool holds its limit of 4096 bytes": report.dropped}
    assert Counter(report.fates.values()) == {"pending": report.pending, "dropped": report.dropped}
    assert sum("dropped" in line.getMessage() for line in caplog.records) == 1


def test_a_blocking_spool_waits_for_room_and_loses_nothing(make_recorder: MakeRecorder) -> None:
    recorder = make_recorder(spool_limit_bytes=4096, on_full="block", block_s=30)
    for number in range(200):
        recorder.emit_event(event(str(number)))
    report = recorder.flush(30)
    assert (report.delivered, report.dropped) == (200, 0)


def test_a_dropped_event_leaves_a_hole_in_the_numbers(make_recorder: MakeRecorder) -> None:
    sender = MemorySender(verdict=lambda _: "retry")
    recorder = make_recorder(sender=sender, spool_limit_bytes=4096)
    trajectory = recorder.trajectory().start()
    trajectory.act_message("x" * 5000)  # does not fit
    trajectory.act_message("small")
    sender.verdict = lambda _: "delivered"
    recorder.flush(30)
    # The gap before the second message names number 1.
    assert [event.seq for event in sender.events] == [0, 2, 3]


def test_what_cannot_be_encoded_is_failed_and_leaves_a_gap_event_in_its_place(
    recorder: Recorder, sender: MemorySender
) -> None:
    trajectory = recorder.trajectory().start()
    lost = trajectory.reward("not a number")  # type: ignore[arg-type]
    worse = trajectory.act_message("ok", trace_id="\ud800 is half a character")
    report = recorder.flush()
    assert report.fates[lost] == report.fates[worse] == "failed"
    assert [(event.seq, event.kind) for event in sender.events] == [
        (0, "trajectory_started"),
        (1, "gap"),
        (2, "gap"),
    ]


def test_a_whole_event_that_fits_no_schema_is_failed_not_raised(recorder: Recorder) -> None:
    lost = recorder.emit_event(event(event_id="not a uuid"))
    assert recorder.flush().fates[lost] == "failed"


@pytest.mark.parametrize(
    "identity",
    [{"task_id": object()}, {"attempt": "first"}, {"trajectory_id": "x" * 100_000}, {"agent": 7}],
)
def test_a_trajectory_whose_every_event_is_unrecordable_raises_nothing(
    recorder: Recorder, identity: dict[str, Any]
) -> None:
    with recorder.trajectory(**identity) as trajectory:
        trajectory.act_message("x")
    report = recorder.flush()
    assert (report.delivered, report.failed + report.dropped) == (0, 3)
    assert not report.complete


def test_a_spool_whose_files_are_deleted_meanwhile_is_reported_as_damaged(
    make_recorder: MakeRecorder, tmp_path: Path
) -> None:
    sender = MemorySender(verdict=lambda _: "retry")
    recorder = make_recorder(sender=sender)
    recorder.emit_event(event())
    for path in (tmp_path / "spool").rglob("*.seg"):
        path.unlink()
    sender.verdict = lambda _: "delivered"
    deadline = time.monotonic() + 30
    while not (report := recorder.flush(1)).damaged_bytes and not sender.records:
        assert time.monotonic() < deadline
    assert (report.damaged_bytes > 0) != bool(
        sender.records
    )  # lost and said so, or already read and delivered


def test_emitting_after_close_drops_and_counts(recorder: Recorder) -> None:
    recorder.close()
    lost = recorder.emit_event(event())
    report = recorder.flush()
    assert (report.fates[lost], report.reasons) == ("dropped", {"the recorder is closed": 1})


def test_nothing_is_printed_even_when_everything_fails(
    make_recorder: MakeRecorder, capfd: pytest.CaptureFixture[str]
) -> None:
    recorder = make_recorder(sender=KafkaSender("127.0.0.1:1"), spool_limit_bytes=4096)
    for number in range(100):
        recorder.emit_event(event(str(number)))
    recorder.emit_event(event(event_id="not a uuid"))
    assert recorder.flush(timeout_s=1).pending == recorder.emitted
    recorder.close(timeout_s=0)
    assert capfd.readouterr() == ("", "")


# Rewards by id.


def test_a_reward_by_id_needs_no_trajectory_object(
    recorder: Recorder, sender: MemorySender
) -> None:
    recorder.reward(
        0.5, trajectory_id="t-9", attempt=2, task_id="task", source_name="judge", dimension="tone"
    )
    recorder.reward(0.7, trajectory_id="t-9", target_step=3)
    recorder.flush()
    first, second = sender.events
    assert isinstance(first.body, Reward)
    assert isinstance(second.body, Reward)
    assert (first.trajectory_id, first.attempt, first.task_id) == ("t-9", 2, "task")
    assert (first.body.value, first.body.source_name, first.body.dimension) == (
        0.5,
        "judge",
        "tone",
    )
    assert (second.body.target_kind, second.body.target_step) == ("step", 3)
    assert first.producer_id != second.producer_id  # each numbers only itself, from 0
    assert first.seq == second.seq == 0


# Construction.


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tenant": ""}, "tenant is empty"),
        ({"tenant": "\n"}, "Event.ids"),
        ({"tenant": 5}, "tenant_id"),
        ({"agent": 5}, "values of the contract"),
        ({"governance": {"consent": "granted"}}, "no event can have"),
        ({"versions": "v1"}, "no event can have"),
        ({"api_key": ""}, "ATDP_API_KEY"),
        ({"api_key": "hunter2"}, "atdp keys create"),
        ({"durability": "eternal"}, "memory, process, disk"),
        ({"on_full": "explode"}, "block, drop"),
        ({"spool_limit_bytes": 1}, "4096"),
        ({"block_s": -1.0}, "negative"),
    ],
)
def test_a_wrong_argument_is_refused_with_a_way_out(
    make_recorder: MakeRecorder,
    monkeypatch: pytest.MonkeyPatch,
    options: dict[str, Any],
    message: str,
) -> None:
    monkeypatch.delenv("ATDP_API_KEY", raising=False)
    with pytest.raises(ConfigurationError, match=message):
        make_recorder(**options)


def test_a_kafka_setting_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"no\.such\.setting"):
        KafkaSender("127.0.0.1:1", no_such_setting=1)


def test_a_sender_serves_one_recorder(make_recorder: MakeRecorder, sender: MemorySender) -> None:
    make_recorder(sender=sender)
    with pytest.raises(ConfigurationError, match="sender of its own"):
        make_recorder(sender=sender)


def test_the_default_recorder_serves_module_functions(tmp_path: Path, sender: MemorySender) -> None:
    recorder = sdk.init(tenant="acme", api_key=API_KEY, sender=sender, spool_dir=tmp_path)
    try:
        with sdk.trajectory(trajectory_id="t-1"):
            sdk.reward(1.0)
        sdk.reward(0.0, trajectory_id="t-1", source_name="judge")
        assert sdk.flush().complete
        values = [event.body.value for event in sender.events if isinstance(event.body, Reward)]
        assert values == [1.0, 0.0]
        with pytest.raises(ConfigurationError, match="trajectory_id="):
            sdk.reward(1.0)
    finally:
        recorder.close()


# What is said of an event quotes nothing of it.


def test_neither_log_nor_reasons_nor_gaps_quote_an_event_that_cannot_be_recorded(
    make_recorder: MakeRecorder, caplog: pytest.LogCaptureFixture
) -> None:
    secret = "Jane Roe 536-90-4399"

    class Hostile:
        def __str__(self) -> str:
            raise ValueError(secret)

    def refuse(_: SpoolRecord) -> sdk.Verdict:
        raise ValueError(secret)

    sender = MemorySender()
    recorder = make_recorder(sender=sender)
    with caplog.at_level(logging.DEBUG):
        trajectory = recorder.trajectory().start()
        trajectory.reward(secret)  # type: ignore[arg-type]
        trajectory.act_message("ok", span_id=f"\ud800 {secret}")
        trajectory.act_message({"role": "assistant", "content": Hostile()})
        trajectory.emit(
            Action(
                type="generation",
                message=Message(role=secret),
                generation=Generation(sampling=Sampling(seed=1 << 63)),
            )
        )
        recorder.emit_event(event(secret, seq=1 << 63))
        recorder.emit_event(event(secret, step=secret))
        report = recorder.flush(30)
        broken = make_recorder(sender=MemorySender(verdict=refuse))
        broken.emit_event(event(secret))
        broken.flush(0.2)
    assert report.failed >= 5
    assert "536-90" not in caplog.text
    assert "536-90" not in repr(report.reasons)
    assert all("536-90" not in repr(event) for event in sender.events if event.kind == "gap")
    assert any("sampling.seed" in reason for reason in report.reasons)


def test_reasons_are_counted_by_kind_and_their_number_is_bounded(recorder: Recorder) -> None:
    for number in range(70):
        ids = (*range(number), 1 << 31)
        recorder.emit_event(
            event(body=Action(type="generation", generation=Generation(prompt_token_ids=ids)))
        )
    report = recorder.flush()
    assert [
        count for reason, count in report.reasons.items() if "prompt_token_ids[*]" in reason
    ] == [70]

    for number in range(70):
        recorder.take(
            SingleEvent(new_event_id(), raising(type(f"Strange{number}", (Exception,), {})))
        )
    report = recorder.flush()
    assert len(report.reasons) <= 51
    assert sum(report.reasons.values()) == report.failed == 140


def raising(kind: type[Exception]) -> Callable[[], Event]:
    def make() -> Event:
        raise kind

    return make


def test_an_option_that_does_not_exist_is_refused_like_any_unknown_argument(
    make_recorder: MakeRecorder,
) -> None:
    with pytest.raises(TypeError, match="'spool_limit'"):
        make_recorder(spool_limit=4096)
    unknown: Any = {"tasks": "x"}
    with pytest.raises(TypeError, match="'tasks'"):
        make_recorder().trajectory(**unknown)
