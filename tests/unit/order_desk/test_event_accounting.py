"""The accounting of events shows every kind of loss, surplus and duplicate."""

from collections import Counter
from collections.abc import Sequence

import pytest

from order_desk.event_accounting import LogCount, account_for_events


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


def test_the_accounting_is_balanced_when_every_event_has_one_result() -> None:
    counted = log("a", "b", "c", quarantined=[None, "d"], dropped=["e", None])
    accounting = account_for_events(7, {"a", "d", "e"}, counted, ["a", "b", "c"])
    assert accounting.is_balanced
    assert (
        accounting.lost,
        accounting.surplus,
        accounting.duplicates,
        accounting.contradictory,
    ) == (0, 0, 0, 0)


@pytest.mark.parametrize("known", [set(), {"a", "b", "c"}])
def test_an_event_that_did_not_land_is_lost(known: set[str]) -> None:
    accounting = account_for_events(3, known, log("a", "b", "c"), ["a", "b"])
    assert accounting.lost == 1
    assert not accounting.is_balanced


def test_an_event_that_landed_twice_is_a_duplicate() -> None:
    accounting = account_for_events(2, {"a"}, log("a", "b"), ["a", "b", "b"])
    assert accounting.duplicates == 1
    assert not accounting.is_balanced


def test_an_event_that_was_governed_twice_is_a_duplicate_even_if_the_lake_hides_it() -> None:
    assert account_for_events(2, set(), log("a", "b", "b", raw=2), ["a", "b"]).duplicates == 1


def test_an_event_that_was_refused_twice_is_a_duplicate() -> None:
    accounting = account_for_events(3, {"a", "b", "c"}, log("a", quarantined=["b", "b"]), ["a"])
    assert (accounting.lost, accounting.duplicates, accounting.is_balanced) == (1, 1, False)


def test_an_event_that_nobody_emitted_is_a_surplus_and_not_a_negative_loss() -> None:
    accounting = account_for_events(1, {"a"}, log("a", "b"), ["a", "b"])
    assert (accounting.lost, accounting.surplus, accounting.is_balanced) == (0, 1, False)


def test_a_lost_event_does_not_hide_behind_one_with_two_results() -> None:
    accounting = account_for_events(
        3, {"a", "b", "c"}, log("a", "b", quarantined=["b"]), ["a", "b"]
    )
    assert (
        accounting.events_emitted
        == accounting.raw_records
        == accounting.events_landed + accounting.quarantined
    )
    assert (accounting.lost, accounting.contradictory, accounting.is_balanced) == (1, 1, False)


def test_a_lost_event_does_not_hide_behind_a_stranger() -> None:
    accounting = account_for_events(2, {"a", "b"}, log("a", "stranger"), ["a", "stranger"])
    assert (accounting.lost, accounting.surplus, accounting.is_balanced) == (1, 1, False)


def test_an_event_that_landed_ungoverned_does_not_hide_behind_a_governed_one_that_did_not() -> None:
    accounting = account_for_events(2, set(), log("a", "b"), ["a", "ungoverned"])
    assert (accounting.lost, accounting.surplus, accounting.is_balanced) == (1, 1, False)
