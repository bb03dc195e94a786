"""Batches that no consumer can read, from any local user: governance goes past them."""

import json
import urllib.request
from collections import Counter
from pathlib import Path

import pytest
from tests.hostile_batches import Codec, batch, bomb, compressed, produce, produce_committed, record

from atdp.schemas import encode

from .rig import DEADLINE_S, KILLABLE, Rig
from .worker_events import trajectories

pytestmark = pytest.mark.kafka

MIB = 1 << 20


def hostile(bad_records: bytes) -> dict[str, bytes]:
    """Return batches that the broker accepts and librdkafka cannot read, each of two records."""
    return {
        "gzip in two streams": batch(
            "gzip", compressed("gzip", bad_records[:40]) + compressed("gzip", bad_records[40:]), 2
        ),
        "lz4 with bytes behind its end": batch("lz4", compressed("lz4", bad_records) + b"more", 2),
        "snappy in two streams": batch(
            "snappy",
            compressed("snappy", bad_records[:40]) + compressed("snappy", bad_records[40:]),
            2,
        ),
    }


def readiness(rig: Rig) -> str:
    url = json.loads((rig.home.run / "governance.json").read_text())["url"]
    with urllib.request.urlopen(url + "/readyz", timeout=DEADLINE_S) as answer:
        return str(answer.read().decode())


def peak_mib(pid: int) -> int:
    """Return the largest resident memory that a process has had."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) // 1024


def test_batches_that_nobody_can_read_are_set_aside_and_everything_else_is_governed_once(
    rig: Rig,
) -> None:
    sent = trajectories(12, 4)
    two = record(encode(sent[0])) + record(b"x" * 100, 1)
    bad = {"a bomb of 22 kB": bomb("zstd", 700 * MIB), **hostile(two)}
    assert len(bad["a bomb of 22 kB"]) < 25_000
    rig.send(sent[:24])
    for partition in (0, 1):
        for name, data in bad.items():
            answer = produce(rig.bootstrap, rig.topic("events_raw"), partition, data)
            assert answer.error == 0, (name, answer)
    # The client raises an error for a header whose name is no text. That ended every worker.
    unnamed = batch("none", record(b"x", headers=[(b"\xff\xfe", b"x")]))
    assert produce(rig.bootstrap, rig.topic("events_raw"), 2, unnamed).error == 0
    first = rig.worker(KILLABLE)
    rig.wait(lambda: "a batch cannot be read" in rig.logs(), "the first batch is met")
    first.kill()
    first.wait()
    rig.send(sent[24:])
    second = rig.worker(KILLABLE)
    rig.wait(rig.everything_is_read, "every partition is read")
    rig.wait(rig.nothing_is_open, "a transaction stays open")

    audits = rig.records("audit")
    assert Counter(audit["decision"] for audit in audits) == {
        "changed": len(sent),
        "quarantined": 2 * len(bad) + 1,
    }
    assert len({audit["event_id"] for audit in audits if audit["event_id"]}) == len(sent)
    refused = [audit for audit in audits if audit["decision"] == "quarantined"]
    assert Counter(audit["reason"].split(":")[0] for audit in refused) == {
        "unreadable_batch": 2 * len(bad),
        "unsigned": 1,
    }
    assert len({audit["audit_id"] for audit in refused}) == len(refused)
    for quarantined in rig.records("events_quarantine"):
        is_batch = quarantined["reason"] == "unreadable_batch"
        assert is_batch == (quarantined["payload_encrypted"] == b"")
    assert len(rig.read("events_governed")) == len(sent)
    assert '"ok"' in readiness(rig)
    assert peak_mib(second.pid) < 700


@pytest.mark.long
def test_offsets_that_a_sender_makes_up_hide_nothing_and_repeat_nothing(rig: Rig) -> None:
    """The broker accepts any number of a record within its batch, in transactions as well."""
    sent = trajectories(12, 4)
    two = record(b"x") + record(b"y" * 100, 1)
    in_transactions: dict[Codec, bytes] = {
        "none": record(b"x") + record(b"y", 20),
        "gzip": compressed("gzip", two[:40]) + compressed("gzip", two[40:]),
    }
    rig.send(sent[:24])
    for partition in range(rig.partitions):
        for number in (20, -1, 0, 1_000_000):
            forged = batch("none", record(b"x") + record(b"y", number), 2)
            assert produce(rig.bootstrap, rig.topic("events_raw"), partition, forged).error == 0
    first = rig.worker(KILLABLE)
    rig.wait(lambda: "a batch cannot be read" in rig.logs(), "the first batch is met")
    first.kill()
    first.wait()
    for partition in range(rig.partitions):
        place = rig.bootstrap, rig.topic("events_raw"), partition
        for codec, payload in in_transactions.items():
            assert produce_committed(*place, codec, payload, 2).error == 0
    rig.send(sent[24:])
    rig.worker(KILLABLE)
    rig.wait(rig.everything_is_read, "every partition is read")
    rig.wait(rig.nothing_is_open, "a transaction stays open")

    audits = rig.records("audit")
    assert len({audit["audit_id"] for audit in audits}) == len(audits)
    reasons = Counter((audit["reason"] or "governed").split(":")[0] for audit in audits)
    forged_batches = 6 * rig.partitions
    assert reasons == {
        "governed": len(sent),
        "unsigned": forged_batches,
        "unreadable_batch": forged_batches,
    }
    assert len(rig.read("events_governed")) == len(sent)


@pytest.mark.long
def test_many_small_bombs_take_bounded_memory(rig: Rig) -> None:
    """A hundred of them come in one answer of the broker with the client's own limits."""
    inflating = bomb("zstd", 10 * MIB)
    for _ in range(100):
        assert produce(rig.bootstrap, rig.topic("events_raw"), 0, inflating).error == 0
    worker = rig.worker()
    audits = rig.wait_for_audits(100)
    assert {audit["reason"] for audit in audits} == {"too_large"}
    assert peak_mib(worker.pid) < 900
