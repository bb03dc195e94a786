"""Readers refuse a trajectory of which governance forgot what it had learned."""

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from atdp.governance.tenant_keys import TenantKeyStore
from atdp.schemas import Body, Reward, TrajectoryEnded, decode_record

from .governed_rows import follow, leaks, may_be_used, settled
from .memory_log import MemoryWorkers
from .taught_trajectories import (
    NAME,
    POLICY,
    RETENTION,
    governed,
    late,
    leaks_to_readers,
    said,
    trajectory,
)


def after_the_retention(workers: MemoryWorkers) -> None:
    workers.log.now += RETENTION
    workers.log.send(trajectory(1)[1:2])
    workers.run()


def after_the_key_is_destroyed(workers: MemoryWorkers) -> None:
    assert TenantKeyStore(workers.governor.secrets).destroy("acme")


def after_the_topic_is_lost(workers: MemoryWorkers) -> None:
    workers.log.outputs.pop("atdp.learned", None)
    workers.log.times.pop("atdp.learned", None)


def under_a_policy_that_learns_nothing(workers: MemoryWorkers) -> None:
    workers.policies.activate(POLICY + "learn: {scope: 'off'}\n")


FORGETS = pytest.mark.parametrize(
    "forget",
    [
        after_the_retention,
        after_the_key_is_destroyed,
        after_the_topic_is_lost,
        under_a_policy_that_learns_nothing,
    ],
)


@pytest.fixture(params=[True, False], ids=["guarded", "guard off"])
def marked(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Return whether events before which governance knows nothing are marked in their stamp."""
    if not request.param:
        monkeypatch.setattr("atdp.governance.record_governor.NONE_BEFORE", 0)
    return bool(request.param)


@FORGETS
def test_a_text_that_comes_after_the_learned_values_are_gone_ends_the_use_of_its_trajectory(
    workers: MemoryWorkers, forget: Callable[[MemoryWorkers], None], *, marked: bool
) -> None:
    workers.log.send(trajectory(0))
    workers.run()
    assert settled(governed(workers)) == 1
    forget(workers)
    workers.log.send([late(said(f"{NAME} is here again"))])
    workers.run()
    assert (leaks_to_readers(workers)[0] == 0) is marked
    assert settled(governed(workers)) == (0 if marked else 1)


@FORGETS
def test_a_value_that_is_learned_when_earlier_events_are_forgotten_ends_the_use_too(
    workers: MemoryWorkers, forget: Callable[[MemoryWorkers], None], *, marked: bool
) -> None:
    if forget is under_a_policy_that_learns_nothing:
        forget(workers)
    workers.log.send(trajectory(0)[:2])
    workers.run()
    workers.policies.activate(POLICY)
    if forget is not under_a_policy_that_learns_nothing:
        forget(workers)
    workers.log.send(trajectory(0)[2:])
    workers.run()
    assert (leaks_to_readers(workers)[0] == 0) is marked
    assert settled(governed(workers)) == (0 if marked else 1)


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


@pytest.mark.parametrize("times", [True, False], ids=["old", "without times"])
def test_an_import_of_old_events_is_learned_and_settled_also_when_it_is_repeated(
    workers: MemoryWorkers, *, times: bool
) -> None:
    """An import marks each event as one that may have been sent before."""
    events = trajectory(0)
    if not times:
        events = [replace(event, occurred_at=None) for event in events]
    workers.log.now += RETENTION
    workers.log.send(events, redelivery=True)
    workers.run()
    assert (settled(governed(workers)), leaks_to_readers(workers)[0]) == (1, 0)
    workers.log.now += RETENTION
    workers.log.send(events, redelivery=True)
    workers.log.send([late(said(f"{NAME} is here again"))])
    workers.run()
    assert (settled(governed(workers)), leaks_to_readers(workers)[0]) == (1, 0)


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
    workers.policies.activate(POLICY.replace('do: replace, text: "<P>"', "do: surrogate"))
    taught = f'{{"full_name": "{NAME.title()}"}}'
    events = [late(said(taught), number) for number in range(3)]
    stage, keys = workers.worker(), TenantKeyStore(workers.governor.secrets)

    def surrogate() -> str:
        stage.step()
        record = decode_record(workers.log.records("events_governed")[-1].value)[1]
        text = record["observation"]["messages"][0]["parts"][0]["text"]
        return str(json.loads(text)["full_name"])

    workers.log.send(events[:1])
    before, key = surrogate(), keys.key_of("acme")
    workers.log.send(events[1:2])
    assert surrogate() == before
    keys.destroy("acme")
    workers.log.send(events[2:])
    after = surrogate()
    assert NAME.title() not in {before, after}
    assert not set(before.split()) & set(after.split())
    assert keys.key_of("acme") != key
    # Digests of the old key match nothing now: the name stays, and readers refuse its trajectory.
    workers.log.send([replace(late(said(f"from {NAME}"), 0), event_id=trajectory(0)[1].event_id)])
    stage.step()
    assert leaks(workers.log.records("events_governed")[-1].value, (NAME,)) == 1
    rows = dict(follow(governed(workers)))
    assert [may_be_used(rows[f"t{number}"].values()) for number in range(3)] == [
        False,
        True,
        True,
    ]
