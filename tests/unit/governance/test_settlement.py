"""Trajectories are settled once, whenever workers die, and never while something is missing."""

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from atdp.governance.learned.trajectory_state import NONE_BEFORE
from atdp.governance.master_secret import MasterSecret
from atdp.governance.policy import PolicyStore
from atdp.governance.record_governor import RecordGovernor
from atdp.governance.tenant_keys import TenantKeyStore
from atdp.runtime.keys import KeyStore
from atdp.schemas import (
    REGOVERNED,
    Agent,
    Body,
    Event,
    EventId,
    Message as ChatMessage,
    Observation,
    Part,
    Reward,
    SigningKey,
    Source,
    TrajectoryEnded,
    decode_record,
    deterministic_event_id,
    header,
)

from . import governed_rows
from .governed_rows import Record, follow, leaks, may_be_used, settled, written
from .governors import NoTokenizers, key_files
from .memory_log import MemoryLog, MemoryWorkers

POLICY = """
apiVersion: atdp.governance/v1
kind: GovernancePolicy
metadata: {id: names, version: 1}
applies_to: {tenants: ["*"]}
consent: {train: granted}
entities: {PERSON: {do: replace, text: "<P>"}, USER_ID: {do: replace, text: "<U>"}}
keys: [{entity: PERSON, names: [full_name]}, {entity: USER_ID, names: [username]}]
fields: [{path: "**", do: scan}]
"""
NAME, USER = "zorvax quilbax", "wexpatx"
TEXTS = (
    f"the order of {NAME} is late, account {USER}",
    "one moment please",
    f'{{"full_name": "{NAME.title()}", "items": 3}}',
    f"done, {NAME}; it is for {NAME.replace(' ', '_')}",
    "",
    "thanks",
    f'{{"username": "{USER}", "stars": 5}}',
)
"""A name is shown before it is learned, and a user id until after the end (the empty text)."""
RETENTION = timedelta(days=8)
BEFORE_END = TEXTS.index("")
OF_NAME, OF_ALL = 3, 4
"""Versions: a full name teaches itself and its two words, and the user id is one entry."""


def trajectory(number: int) -> list[Event]:
    start = datetime(2026, 11, 1, tzinfo=UTC)
    return [
        Event(
            event_id=deterministic_event_id(start, "acme", f"t{number}", str(seq)),
            tenant_id="acme",  # type: ignore[arg-type]
            trajectory_id=f"t{number}",  # type: ignore[arg-type]
            producer_id="p",
            seq=seq,
            occurred_at=start + timedelta(seconds=seq),
            agent=Agent(id="a"),
            source=Source(format="test"),
            body=Observation(messages=(ChatMessage(role="user", parts=(Part(text=text),)),))
            if text
            else TrajectoryEnded(status="completed"),
        )
        for seq, text in enumerate(TEXTS)
    ]


def interleaved(count: int) -> list[Event]:
    every = [trajectory(number) for number in range(count)]
    return [events[seq] for seq in range(len(TEXTS)) for events in every]


@pytest.fixture(scope="module")
def key_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[KeyStore, SigningKey]]:
    with KeyStore(tmp_path_factory.mktemp("keys") / "keys.db") as keys:
        yield keys, SigningKey.parse(keys.create("acme", "agent")[0])


@pytest.fixture
def workers(
    key_store: tuple[KeyStore, SigningKey],
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> MemoryWorkers:
    keys, key = key_store
    folder = tmp_path_factory.mktemp("policies")
    (folder / "names.yaml").write_text(POLICY)
    policies = PolicyStore(folder)
    policies.refresh()
    governor = RecordGovernor(
        keys=keys.get,
        policies=policies,
        secret=MasterSecret("k1", b"m" * 32),
        tokenizers=NoTokenizers(),
        tenant_keys=key_files(folder / "tenant-keys"),
    )
    return MemoryWorkers(
        log=MemoryLog(key), governor=governor, policies=folder, monkeypatch=monkeypatch
    )


def governed(workers: MemoryWorkers) -> list[Record]:
    return [(each.value, each.headers) for each in workers.log.records("events_governed")]


def canaries(_: str, version: int | None) -> Sequence[str]:
    return (NAME, USER) if version in {None, OF_ALL} else (NAME,)


def leaks_to_readers(workers: MemoryWorkers) -> tuple[int, int]:
    return governed_rows.leaks_to_readers(governed(workers), canaries)


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
    policy = workers.policies / "names.yaml"
    policy.write_text(POLICY + f"learn: {{scope: {scope}}}\n")
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
    (workers.policies / "names.yaml").write_text(POLICY + "learn: {scope: tenant}\n")
    workers.log.send(trajectory(0))
    workers.run()
    workers.log.now += RETENTION
    workers.log.send(trajectory(1)[:1])
    workers.run()
    deleted = [each.key for each in workers.log.records("learned_values") if not each.value]
    assert (len(deleted), b"acme/" in deleted) == (1, False)
    assert leaks(workers.log.records("events_governed")[-1].value, (NAME, USER)) == 0


# What governance forgets, readers must know: an event that comes later may show it.


def after_the_retention(workers: MemoryWorkers) -> None:
    workers.log.now += RETENTION
    workers.log.send(trajectory(1)[1:2])
    workers.run()


def after_the_key_is_destroyed(workers: MemoryWorkers) -> None:
    assert TenantKeyStore(workers.governor.tenant_keys.folder).destroy("acme")


def after_the_topic_is_lost(workers: MemoryWorkers) -> None:
    workers.log.outputs.pop("atdp.learned", None)
    workers.log.times.pop("atdp.learned", None)


def under_a_policy_that_learns_nothing(workers: MemoryWorkers) -> None:
    (workers.policies / "names.yaml").write_text(POLICY + "learn: {scope: 'off'}\n")


FORGETS = pytest.mark.parametrize(
    "forget",
    [
        after_the_retention,
        after_the_key_is_destroyed,
        after_the_topic_is_lost,
        under_a_policy_that_learns_nothing,
    ],
)


def late(body: Body, number: int = 0) -> Event:
    """Return an event that comes long after the others of its trajectory."""
    event = trajectory(number)[0]
    return replace(event, event_id=EventId(f"{event.event_id[:-3]}abc"), seq=0, body=body)


def said(text: str) -> Observation:
    return Observation(messages=(ChatMessage(role="user", parts=(Part(text=text),)),))


@FORGETS
@pytest.mark.parametrize("guarded", [True, False], ids=["guarded", "guard off"])
def test_a_text_that_comes_after_the_learned_values_are_gone_ends_the_use_of_its_trajectory(
    workers: MemoryWorkers,
    monkeypatch: pytest.MonkeyPatch,
    forget: Callable[[MemoryWorkers], None],
    *,
    guarded: bool,
) -> None:
    if not guarded:
        monkeypatch.setattr("atdp.governance.record_governor.NONE_BEFORE", 0)
    workers.log.send(trajectory(0))
    workers.run()
    assert settled(governed(workers)) == 1
    forget(workers)
    workers.log.send([late(said(f"{NAME} is here again"))])
    workers.run()
    assert (leaks_to_readers(workers)[0] == 0) is guarded
    assert settled(governed(workers)) == (0 if guarded else 1)


@FORGETS
@pytest.mark.parametrize("guarded", [True, False], ids=["guarded", "guard off"])
def test_a_value_that_is_learned_when_earlier_events_are_forgotten_ends_the_use_too(
    workers: MemoryWorkers,
    monkeypatch: pytest.MonkeyPatch,
    forget: Callable[[MemoryWorkers], None],
    *,
    guarded: bool,
) -> None:
    if not guarded:
        monkeypatch.setattr("atdp.governance.record_governor.NONE_BEFORE", 0)
    if forget is under_a_policy_that_learns_nothing:
        forget(workers)
    workers.log.send(trajectory(0)[:2])
    workers.run()
    (workers.policies / "names.yaml").write_text(POLICY)
    if forget is not under_a_policy_that_learns_nothing:
        forget(workers)
    workers.log.send(trajectory(0)[2:])
    workers.run()
    assert (leaks_to_readers(workers)[0] == 0) is guarded
    assert settled(governed(workers)) == (0 if guarded else 1)


@pytest.mark.parametrize("guarded", [True, False], ids=["guarded", "guard off"])
def test_a_copy_that_comes_after_the_retention_begins_nothing(
    workers: MemoryWorkers, monkeypatch: pytest.MonkeyPatch, *, guarded: bool
) -> None:
    """Readers do not see the copy's stamp, so it must not hide that knowledge was lost."""
    if not guarded:
        monkeypatch.setattr("atdp.governance.record_governor.may_be_copy", lambda **_: False)
    workers.log.send(trajectory(0))
    workers.run()
    after_the_retention(workers)
    workers.log.send(trajectory(0)[1:2], redelivery=True)
    workers.log.send([late(said(f"{NAME} is here again"))])
    workers.run()
    assert (leaks_to_readers(workers)[0] == 0) is guarded
    assert settled(governed(workers)) == (0 if guarded else 1)


@pytest.mark.parametrize(
    ("body", "used"),
    [
        (Reward(value=1.0, source_name="judge-2", dimension="outcome"), True),
        (TrajectoryEnded(status="idle"), True),
        (Reward(value=1.0, source_name="judge", critique=f"{NAME} is happy"), False),
    ],
)
def test_a_late_judgement_without_text_leaves_its_trajectory_usable(
    workers: MemoryWorkers, body: Body, *, used: bool
) -> None:
    workers.log.send(trajectory(0))
    workers.run()
    after_the_retention(workers)
    states = len(workers.log.records("learned_values"))
    workers.log.send([late(body)])
    workers.run()
    assert (settled(governed(workers)), leaks_to_readers(workers)[0]) == (int(used), 0)
    assert (len(workers.log.records("learned_values")) == states) is used
    assert workers.metrics.not_settled.labels("late")._value.get() == int(not used)


def test_a_running_worker_uses_a_new_key_when_the_tenants_key_is_destroyed(
    workers: MemoryWorkers,
) -> None:
    policy = workers.policies / "names.yaml"
    policy.write_text(POLICY.replace('do: replace, text: "<P>"', "do: surrogate"))
    taught = f'{{"full_name": "{NAME.title()}"}}'
    events = [late(said(taught), number) for number in range(3)]
    stage, folder = workers.worker(), workers.governor.tenant_keys.folder

    def surrogate() -> str:
        stage.step()
        record = decode_record(workers.log.records("events_governed")[-1].value)[1]
        text = record["observation"]["messages"][0]["parts"][0]["text"]
        return str(json.loads(text)["full_name"])

    workers.log.send(events[:1])
    before, key = surrogate(), (folder / "acme.json").read_text()
    workers.log.send(events[1:2])
    assert surrogate() == before
    TenantKeyStore(folder).destroy("acme")
    workers.log.send(events[2:])
    after = surrogate()
    assert NAME.title() not in {before, after}
    assert not set(before.split()) & set(after.split())
    assert (folder / "acme.json").read_text() != key
    # What was learned under the old key is found no more, and readers know it.
    workers.log.send([replace(late(said(f"from {NAME}"), 0), event_id=trajectory(0)[1].event_id)])
    stage.step()
    assert leaks(workers.log.records("events_governed")[-1].value, (NAME,)) == 1
    rows = dict(follow(governed(workers)))
    assert [may_be_used(rows[f"t{number}"].values()) for number in range(3)] == [
        False,
        True,
        True,
    ]
