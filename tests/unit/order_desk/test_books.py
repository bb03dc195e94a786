"""The demo's books can disagree: every kind of loss, surplus, duplicate and leak shows in them."""

from collections import Counter
from collections.abc import Sequence

import pyarrow as pa
import pytest

from atdp.trainer.trajectory import TrajectoryKey
from order_desk.evidence import not_consenting
from order_desk.leaks import search, strings_of
from order_desk.ledger import LogCount, balance
from order_desk.memory import MemoryWatch, resident_by_process
from order_desk.tally import Tally


def log(
    *governed: str,
    quarantined: Sequence[str | None] = (),
    dropped: Sequence[str | None] = (),
    raw: int | None = None,
) -> LogCount:
    records = len(governed) + len(quarantined) + len(dropped) if raw is None else raw
    return LogCount(
        raw_records=records,
        governed=Counter(governed),
        quarantined=Counter({("acme", "bad_signature"): len(quarantined)}),
        quarantined_ids=Counter(event for event in quarantined if event),
        dropped_by_policy=len(dropped),
        dropped_ids=Counter(event for event in dropped if event),
        findings=Counter(),
    )


def test_books_are_even_when_every_event_has_one_fate() -> None:
    told = log("a", "b", "c", quarantined=[None, "d"], dropped=["e", None])
    books = balance(7, {"a", "d", "e"}, told, ["a", "b", "c"])
    assert books.even
    assert (books.lost, books.surplus, books.duplicates, books.contradictory) == (0, 0, 0, 0)


@pytest.mark.parametrize("known", [set(), {"a", "b", "c"}])
def test_an_event_that_did_not_land_is_lost(known: set[str]) -> None:
    books = balance(3, known, log("a", "b", "c"), ["a", "b"])
    assert books.lost == 1
    assert not books.even


def test_an_event_that_landed_twice_is_a_duplicate() -> None:
    books = balance(2, {"a"}, log("a", "b"), ["a", "b", "b"])
    assert books.duplicates == 1
    assert not books.even


def test_an_event_that_was_governed_twice_is_a_duplicate_even_if_the_lake_hides_it() -> None:
    assert balance(2, set(), log("a", "b", "b", raw=2), ["a", "b"]).duplicates == 1


def test_an_event_that_was_refused_twice_is_a_duplicate() -> None:
    books = balance(3, {"a", "b", "c"}, log("a", quarantined=["b", "b"]), ["a"])
    assert (books.lost, books.duplicates, books.even) == (1, 1, False)


def test_an_event_that_nobody_emitted_is_a_surplus_and_not_a_negative_loss() -> None:
    books = balance(1, {"a"}, log("a", "b"), ["a", "b"])
    assert (books.lost, books.surplus, books.even) == (0, 1, False)


def test_a_lost_event_does_not_hide_behind_one_with_two_fates() -> None:
    books = balance(3, {"a", "b", "c"}, log("a", "b", quarantined=["b"]), ["a", "b"])
    assert books.events_emitted == books.raw_records == books.events_landed + books.quarantined
    assert (books.lost, books.contradictory, books.even) == (1, 1, False)


def test_a_lost_event_does_not_hide_behind_a_stranger() -> None:
    books = balance(2, {"a", "b"}, log("a", "stranger"), ["a", "stranger"])
    assert (books.lost, books.surplus, books.even) == (1, 1, False)


def test_an_event_that_landed_ungoverned_does_not_hide_behind_a_governed_one_that_did_not() -> None:
    books = balance(2, set(), log("a", "b"), ["a", "past the gate"])
    assert (books.lost, books.surplus, books.even) == (1, 1, False)


def test_the_tally_counts_by_tenant_and_by_channel() -> None:
    tally = Tally()
    tally.add("acme", "proxy", 4)
    tally.add("acme", "sdk")
    tally.emit("globex", "event-1", "event-2")
    assert tally.total == 7
    assert tally.known_ids == {"event-1", "event-2"}
    assert tally.by_tenant() == {"acme": 5, "globex": 2}
    assert tally.by_channel() == {"proxy": 4, "sdk": 3}


def test_a_planted_value_is_found_where_it_was_left_and_counted_once_per_place() -> None:
    places = [("clean", [b"nothing", b"here"]), ("leaky", [b"call 0123456", b"again 0123456"])]
    report = search(places, {"0123456", "other"})
    assert report.raw_values_left == 1
    assert report.left == {"leaky": 1}
    assert report.bytes_searched == {"clean": 11, "leaky": 25}


def test_the_search_reads_strings_at_any_depth_of_a_column() -> None:
    rows = [{"messages": [{"parts": [{"text": "secret-1"}]}], "name": "secret-2", "count": 3}, None]
    texts = b" ".join(strings_of(pa.array(rows)))
    assert b"secret-1" in texts
    assert b"secret-2" in texts


def test_the_search_reads_dictionary_encoded_columns() -> None:
    assert b"secret" in b"".join(strings_of(pa.array(["secret", "secret"]).dictionary_encode()))


def test_the_memory_watch_keeps_the_peak_and_who_had_it() -> None:
    samples = iter([{"a": 5}, {"a": 7, "b": 4}])
    watch = MemoryWatch(sample=lambda: next(samples, {"a": 1}))
    with watch:
        watch.look()
    assert watch.peak_bytes == 11
    assert watch.at_peak == {"a": 7, "b": 4}


def test_this_process_has_a_size() -> None:
    assert resident_by_process()["demo"] > 1_000_000


def test_a_trained_trajectory_is_the_consenting_tenants_only_when_the_agents_say_so_too() -> None:
    tally = Tally()
    tally.serve("acme", "mine")
    tally.serve("globex", "theirs")
    stray = [
        key.trajectory
        for key in (
            TrajectoryKey("acme", "mine", 0),
            TrajectoryKey("acme", "theirs", 0),  # landed under the wrong tenant
            TrajectoryKey("globex", "theirs", 0),
            TrajectoryKey("acme", "unheard of", 0),
        )
        if not_consenting(key, tally)
    ]
    assert stray == ["theirs", "theirs", "unheard of"]
