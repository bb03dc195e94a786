"""Trajectories are settled once, whenever workers die, and never while something is missing."""

import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from atdp.governance.master_secret import MasterSecret
from atdp.governance.policy import PolicyStore
from atdp.governance.record_governor import RecordGovernor
from atdp.runtime.keys import KeyStore
from atdp.schemas import (
    REGOVERNED,
    Agent,
    Event,
    EventId,
    Message as ChatMessage,
    Observation,
    Part,
    SigningKey,
    Source,
    TrajectoryEnded,
    decode_record,
    deterministic_event_id,
    header,
)

from .governors import NoTokenizers
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
    )
    return MemoryWorkers(
        log=MemoryLog(key), governor=governor, policies=folder, monkeypatch=monkeypatch
    )


def leaks(value: bytes, known: Sequence[str]) -> int:
    lowered = value.lower().replace(b"_", b" ")
    return sum(each.encode() in lowered for each in known)


def leaks_to_readers(log: MemoryLog) -> tuple[int, int]:
    """Return how many leaks readers could see, and how many are left in the end.

    A reader follows the governed topic, where a later record of an event replaces the earlier one,
    and looks at a trajectory whenever its highest settled version is that of what was learned.
    """
    rows: dict[str, dict[str, bytes]] = defaultdict(dict)
    versions: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    seen = 0
    for output in log.records("events_governed"):
        record = decode_record(output.value)[1]
        name, stamp = record["trajectory_id"], record["governance"]
        rows[name][record["event_id"]] = output.value
        versions[name][0] = max(versions[name][0], stamp["learned_version"])
        versions[name][1] = max(versions[name][1], stamp["settled_version"])
        learned, settled = versions[name]
        if learned and settled >= learned:
            known = (NAME, USER) if learned == OF_ALL else (NAME,)
            seen += sum(leaks(value, known) for value in rows[name].values())
    left = sum(leaks(value, (NAME, USER)) for each in rows.values() for value in each.values())
    return seen, left


def settled(log: MemoryLog) -> int:
    """Return how many trajectories may be used in the end."""
    versions: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for output in log.records("events_governed"):
        record = decode_record(output.value)[1]
        stamp, both = record["governance"], versions[record["trajectory_id"]]
        both[:] = (
            max(both[0], stamp["learned_version"]),
            max(both[1], stamp["settled_version"]),
        )
    return sum(settled >= learned > 0 for learned, settled in versions.values())


def written(log: MemoryLog) -> Counter[tuple[str, bytes | None]]:
    """Return how often each form of each event was written."""
    return Counter(
        (decode_record(output.value)[1]["event_id"], header(output.headers, REGOVERNED))
        for output in log.records("events_governed")
    )


def test_events_before_a_value_was_learned_are_governed_again_and_only_those_that_change(
    workers: MemoryWorkers,
) -> None:
    workers.log.send(interleaved(3))
    workers.run()
    assert leaks_to_readers(workers.log) == (0, 0)
    assert settled(workers.log) == 3
    # Of each trajectory, only the first event changes: by the name, and later by the user id.
    again = [version for _, version in written(workers.log) if version is not None]
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
        (0, 0),
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
    assert leaks_to_readers(workers.log) == (0, 0)
    assert settled(workers.log) == 3
    assert set(written(workers.log).values()) == {1}


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
    assert max(written(workers.log).values()) > 1


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
    assert (leaks_to_readers(workers.log)[1] == 0) is restores
    assert (settled(workers.log) == 3) is restores


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
    assert (leaks_to_readers(workers.log), settled(workers.log)) == ((0, 0), 1)
    assert set(written(workers.log).values()) == {1}
    assert Counter(version for _, version in written(workers.log))[b"3"] == 20


def test_a_trajectory_whose_raw_records_are_gone_is_never_settled(workers: MemoryWorkers) -> None:
    workers.log.send(interleaved(2))
    workers.log.gone = {0}
    workers.run()
    assert leaks_to_readers(workers.log)[0] == 0
    assert settled(workers.log) == 1
    assert workers.metrics.not_settled.labels("raw_gone")._value.get() > 0


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
    assert (stamp["learned_version"], stamp["settled_version"]) == (0, 0)


def test_states_of_trajectories_without_events_are_deleted_after_their_retention(
    workers: MemoryWorkers,
) -> None:
    workers.log.send(trajectory(0))
    workers.run()
    workers.log.now += timedelta(days=8)
    stage = workers.worker()
    workers.log.now -= timedelta(days=8)
    workers.log.send(trajectory(1)[:1])
    assert list(stage._learned._partition(0))
    workers.log.now += timedelta(days=20)
    stage.step()
    deleted = [output for output in workers.log.records("learned_values") if not output.value]
    assert len(deleted) == 1
    assert len(stage._learned) == 1
