"""No personal value can be read in what leaves governance; the whole run is `make bench-leaks`."""

from pathlib import Path

from .__main__ import LeakCount, Selection, count_leaks, table
from .cases import combinations, leak_case
from .gate import Gate
from .reader import is_left, readings

SAMPLE = range(300)
SELECTION = Selection(seed=1, only="", examples=10)


def counted(home: Path, *, governed: bool) -> LeakCount:
    return count_leaks(Gate(home, governed=governed), SAMPLE, SELECTION)


def test_no_value_of_a_sample_is_left_and_hardly_any_event_is_held_back(tmp_path: Path) -> None:
    count = counted(tmp_path, governed=True)
    assert count.left["all"] == 0, "\n".join([table(count), *count.examples])
    assert count.quarantined["all"] <= len(SAMPLE) / 100, count.reasons


def test_without_governance_the_reader_reads_every_value_in_every_coding(tmp_path: Path) -> None:
    """Checks the check: a case in which nothing could be read would never count as left."""
    count = counted(tmp_path, governed=False)
    unread = {label for label in count.total if count.left[label] < count.total[label]}
    assert unread == set()
    assert {label for each in combinations() for label in each.labels} - count.total.keys() == set()


def test_a_case_is_the_same_in_every_process() -> None:
    one, again = leak_case(71, seed=1), leak_case(71, seed=1)
    assert one == again
    assert one.record != leak_case(71, seed=2).record


def test_a_surrogate_is_not_read_as_the_value() -> None:
    value = leak_case(0, seed=1).value
    assert is_left(value, readings([{"a": [value.text]}]))
    assert not is_left(value, readings([{"a": ["<EMAIL_ADDRESS_ab12cd34ef>", 5551234]}]))
