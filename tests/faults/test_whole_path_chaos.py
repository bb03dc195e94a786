"""Kill -9 anybody on the way from an import to the lake, at random and again and again: the counts are the same.

An import of made-up tau-bench rows (the SDK's spool) and two clients of the gateway send through
one real stack while the import process, the gateway, the gate, the lake writer and the broker are
killed. What was sent, what lies in the topics and what is in the files of the lake are then counted
independently of who wrote them (`whole_path`).

The counts can disagree: a second test takes the redelivery mark away and sees every event twice.
That each hop's own guard is needed, the tests of that hop show (`test_sdk_kill`: a spool in memory
loses; `test_lake_kill`: no comparison of offsets, and rows repeat).

`ATDP_CHAOS_SEED` repeats a run (as far as the machine's timing allows), `ATDP_CHAOS_KILLS` makes it
longer (kills of each victim).
"""

import os
import random
import signal
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest

from atdp.sdk import KafkaSender, Recorder

from .whole_path import (
    PRIVATE,
    Importing,
    Posting,
    Stack,
    count,
    events_of,
    forbidden,
    tau_bench_file,
)

pytestmark = [pytest.mark.kafka, pytest.mark.faults, pytest.mark.e2e, pytest.mark.timeout(1500)]

SEED = int(os.environ.get("ATDP_CHAOS_SEED", "20260707"))
KILLS = int(os.environ.get("ATDP_CHAOS_KILLS", "2"))
FILES, ROWS = 3, 100
VICTIMS = ("gateway", "governance", "lake-writer", "kafka")


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with tempfile.TemporaryDirectory(prefix="atdp-chaos-") as folder:
        made = Stack(Path(folder))
        with made.running():
            yield made
        assert made.left_running() == []


def test_whoever_is_killed_everything_lands_once(stack: Stack, tmp_path: Path) -> None:
    chance = random.Random(SEED)
    files = [
        tau_bench_file(tmp_path / f"run-{number}.json", chance, ROWS) for number in range(FILES)
    ]
    importing = Importing(stack, files, random.Random(SEED + 1), kills=KILLS + 1)
    posters = [Posting(stack, "acme", batch=10), Posting(stack, "stranger", batch=2)]
    victims = [*VICTIMS * KILLS]
    chance.shuffle(victims)
    with ThreadPoolExecutor() as pool:
        sending = [pool.submit(poster.run) for poster in posters]
        try:
            imported_all = pool.submit(importing.run)
            for victim in victims:
                wait(
                    [imported_all], chance.uniform(0.2, 1.5)
                )  # when nothing is left to disturb, no pause
                stack.kill(victim, ready=chance.random() < 0.75)
            imported_all.result()
        finally:
            for poster in posters:
                poster.stopping.set()
        for future in sending:
            future.result()
    stack.atdp("wait", "--timeout", "300")

    imported = [event for file in files for event in events_of(file, "retail")]
    acme, stranger = (poster.acknowledged for poster in posters)
    emitted = {str(event.event_id) for event in (*imported, *acme, *stranger)}
    refused = {str(event.event_id) for event in stranger}  # no policy is for them
    dropped = forbidden([*imported, *acme])
    books = count(stack)
    tenants = ("retail", "acme", "stranger")

    # The kills were felt, or this test shows nothing.
    assert importing.killed == [-signal.SIGKILL] * (KILLS + 1)
    assert [(report["imported"], report["delivered"]) for report in importing.reports] == [
        (ROWS, True)
    ] * FILES
    for victim in VICTIMS:
        stack.wait_for_restarts(victim, KILLS)
    assert sum(poster.retried for poster in posters) > 0
    assert len(books.raw) > len(set(books.raw.values()))  # copies did come, and had to be found out
    assert dropped
    assert refused

    # Nothing was lost and nothing made up on the way in; every raw record got one decision.
    assert books.of(*tenants) == emitted
    assert books.audited == Counter(books.raw.keys())
    quarantined = {books.raw[place] for place in books.quarantined}
    assert quarantined == refused
    assert max(books.quarantined.values()) == 1
    decided = books.decisions
    assert decided["passed"] + decided["changed"] == books.governed.total()
    assert decided["quarantined"] == len(books.quarantined)
    assert decided["dropped"] == sum(event_id in dropped for event_id in books.raw.values())
    assert books.of(*tenants) & books.governed.keys() == emitted - refused - dropped

    # The lake has each of them once, and every decision.
    assert books.of(*tenants) & books.lake.keys() == emitted - refused - dropped
    assert books.twice(*tenants) == set()
    assert books.lake_quarantined == books.quarantined
    assert books.lake_audited == books.audited
    assert PRIVATE.encode() not in books.governed_bytes


def test_without_the_mark_what_is_sent_again_is_there_twice(stack: Stack, tmp_path: Path) -> None:
    """The same import, its events not marked: the books show what the mark prevents."""
    file = tau_bench_file(tmp_path / "run.json", random.Random(SEED), 10)
    found = events_of(file, "unmarked")
    for _ in range(2):
        recorder = Recorder(
            tenant="unmarked",
            api_key=stack.key("unmarked"),
            sender=KafkaSender(stack.bootstrap),
            spool_dir=stack.home.spool,
            agent="import",
        )
        for event in found:
            recorder.emit_event(event, redelivery=False)
        assert recorder.close(180).complete
    stack.atdp("wait", "--timeout", "300")
    books = count(stack)
    assert books.twice("unmarked") == {str(event.event_id) for event in found} - forbidden(found)
