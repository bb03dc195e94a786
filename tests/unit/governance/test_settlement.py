"""Trajectories are settled once, whenever workers die, and never while something is missing."""

import json
import random
from collections import Counter
from dataclasses import replace

import pytest

from atdp.governance.learned.trajectory_state import NONE_BEFORE
from atdp.schemas import REGOVERNED, EventId, decode_record, header

from .governed_rows import leaks, settled, written
from .memory_log import MemoryWorkers
from .taught_trajectories import (
    BEFORE_END,
    NAME,
    OF_ALL,
    OF_NAME,
    POLICY,
    RETENTION,
    USER,
    governed,
    interleaved,
    late,
    leaks_to_readers,
    said,
    trajectory,
)


def test_events_before_a_value_was_learned_are_governed_again_and_only_those_that_change(
    workers: MemoryWorkers,
) -> None:
    workers.log.send(interleaved(3))
    workers.run()
    assert leaks_to_readers(workers) == (0, 0)
    assert settled(governed(workers)) == 3
    # Of each trajectory, only the first event changes: by the name, and later by the user id.
    again = [version for _, version in written(governed(workers)) if version is not None]
    assert Counter(again) == {b"3": 3, b"4": 3}
    audits = [decode_record(output.value)[1] for output in workers.log.records("audit")]
    assert Counter(audit["reason"] for audit in audits) == {
        None: len(workers.log.raw),
        "regoverned:3": 3,
        "regoverned:4": 3,
    }
    assert len({audit["audit_id"] for audit in audits}) == len(audits)
    assert workers.metrics.regoverned.labels("changed")._value.get() == 6


def test_stamps_say_with_how_many_values_an_event_and_all_earlier_ones_are_governed(
    workers: MemoryWorkers,
) -> None:
    workers.log.send(trajectory(0))
    workers.run()
    stamps = [
        decode_record(output.value)[1]["governance"]
        for output in workers.log.records("events_governed")
        if header(output.headers, REGOVERNED) is None
    ]
    assert [(each["learned_version"], each["settled_version"]) for each in stamps] == [
        (0, NONE_BEFORE),
        (0, 0),
        (OF_NAME, 0),
        (OF_NAME, 0),
        (OF_NAME, OF_NAME),
        (OF_NAME, OF_NAME),
        (OF_ALL, OF_ALL),
    ]


@pytest.mark.parametrize("seed", range(6))
def test_workers_that_die_anywhere_write_every_form_once(workers: MemoryWorkers, seed: int) -> None:
    chance = random.Random(seed)
    workers.settings = {"batch_records": 5, "batch_bytes": chance.choice([1, 3_000, 64_000_000])}
    workers.log.is_killed = lambda _: chance.random() < 0.03
    workers.log.send(interleaved(3))
    assert workers.run() > 1
    assert leaks_to_readers(workers) == (0, 0)
    assert settled(governed(workers)) == 3
    assert set(written(governed(workers)).values()) == {1}


@pytest.mark.parametrize("seed", range(2))
def test_without_transactions_the_same_deaths_write_forms_twice(
    workers: MemoryWorkers, seed: int
) -> None:
    chance = random.Random(seed)
    workers.atomic = False
    workers.settings = {"batch_records": 5}
    workers.log.is_killed = lambda _: chance.random() < 0.03
    workers.log.send(interleaved(3))
    workers.run()
    assert max(written(governed(workers)).values()) > 1


@pytest.mark.parametrize("restores", [True, False], ids=["guarded", "guard off"])
def test_a_worker_that_takes_over_knows_what_was_learned_before(
    workers: MemoryWorkers, *, restores: bool
) -> None:
    events = interleaved(3)
    workers.log.send(events[: 3 * BEFORE_END])
    workers.run()
    workers.restores = restores
    workers.log.send(events[3 * BEFORE_END :])
    workers.run()
    assert (leaks_to_readers(workers)[1] == 0) is restores
    assert (settled(governed(workers)) == 3) is restores


def test_a_long_trajectory_is_settled_in_several_transactions_and_the_end_waits(
    workers: MemoryWorkers,
) -> None:
    shown = trajectory(0)[0]
    many = [
        replace(shown, event_id=EventId(f"{shown.event_id[:-3]}{n:03d}"), seq=100 + n)
        for n in range(20)
    ]
    workers.settings = {"batch_bytes": 1, "batch_records": 1}
    workers.log.send([*many, *trajectory(0)[1:]])
    workers.run()
    assert (leaks_to_readers(workers), settled(governed(workers))) == ((0, 0), 1)
    assert set(written(governed(workers)).values()) == {1}
    assert Counter(version for _, version in written(governed(workers)))[b"3"] == 20


def test_a_trajectory_whose_raw_records_are_gone_is_never_settled(workers: MemoryWorkers) -> None:
    workers.log.send(interleaved(2))
    workers.log.gone = {0}
    workers.run()
    assert leaks_to_readers(workers)[0] == 0
    assert settled(governed(workers)) == 1
    # Tried when the trajectory ended and when it taught more, and at no other event.
    assert workers.metrics.not_settled.labels("raw_gone")._value.get() == 2


def test_an_event_that_settles_and_is_set_aside_leaves_what_it_settled(
    workers: MemoryWorkers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("atdp.governance.decision_records.MAX_VALUE_BYTES", 2_000)
    large = late(said(f'{{"username": "{USER}", "padding": "{"-" * 2_000}"}}'))
    after = replace(late(said("good bye")), event_id=EventId(f"{large.event_id[:-3]}def"))
    workers.log.send([*trajectory(0)[:-1], large, after])
    workers.run()
    quarantined = workers.log.records("events_quarantine")
    assert [decode_record(each.value)[1]["reason"] for each in quarantined] == ["too_large"]
    assert (settled(governed(workers)), leaks_to_readers(workers)) == (1, (0, 0))
    assert set(written(governed(workers)).values()) == {1}


@pytest.mark.parametrize("value", ["the", "1", "", " ", "\U0001f642", "x" * 10_000, "a b " * 500])
def test_a_hostile_value_changes_no_ordinary_text(workers: MemoryWorkers, value: str) -> None:
    texts = [json.dumps({"full_name": value, "username": value}), "the 1 of a b \U0001f642 is here"]
    events = [replace(late(said(text)), seq=seq) for seq, text in enumerate(texts)]
    workers.log.send([events[0], replace(events[1], event_id=trajectory(0)[1].event_id)])
    workers.run()
    record = decode_record(workers.log.records("events_governed")[-1].value)[1]
    assert record["observation"]["messages"][0]["parts"][0]["text"] == texts[1]


def test_decoded_states_are_limited_by_their_size_and_read_again(
    workers: MemoryWorkers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("atdp.governance.learned.learned_store._DECODED_SIZE", 10)
    workers.log.send(interleaved(5))
    stage = workers.worker()
    while workers.log.offset < len(workers.log.raw):
        stage.step()
    decoded = stage._learned._decoded.values()
    assert len(decoded) == 1
    assert (settled(governed(workers)), leaks_to_readers(workers)) == (5, (0, 0))


@pytest.mark.parametrize("scope", ["trajectory", "tenant"])
def test_a_policy_can_find_values_in_all_later_trajectories_of_the_tenant(
    workers: MemoryWorkers, scope: str
) -> None:
    workers.policies.activate(POLICY + f"learn: {{scope: {scope}}}\n")
    workers.governor.policies.refresh()
    workers.log.send([*trajectory(0), trajectory(1)[0]])
    workers.run()
    last = workers.log.records("events_governed")[-1].value
    assert (leaks(last, (NAME, USER)) == 0) is (scope == "tenant")
    stamp = decode_record(last)[1]["governance"]
    assert (stamp["learned_version"], stamp["settled_version"]) == (0, NONE_BEFORE)


def test_states_without_events_are_deleted_after_their_retention_but_not_the_tenants(
    workers: MemoryWorkers,
) -> None:
    workers.policies.activate(POLICY + "learn: {scope: tenant}\n")
    workers.log.send(trajectory(0))
    workers.run()
    workers.log.now += RETENTION
    workers.log.send(trajectory(1)[:1])
    workers.run()
    deleted = [each.key for each in workers.log.records("learned_values") if not each.value]
    assert (len(deleted), b"acme/" in deleted) == (1, False)
    assert leaks(workers.log.records("events_governed")[-1].value, (NAME, USER)) == 0
