"""The runs of hashes answer as a plain dictionary does."""

import polars as pl
from hypothesis import given, strategies as st

from atdp.lakehouse.hash_runs import GROUP, HASH, HashRuns

HASHES = st.integers(0, 40) | st.sampled_from([2**64 - 1, 2**63])


def column(values: list[int]) -> pl.Series:
    return pl.Series(values, dtype=pl.UInt64)


@given(st.lists(st.lists(HASHES, max_size=12), max_size=12), st.lists(HASHES, max_size=12))
def test_every_entry_that_was_added_is_found_and_no_other(
    groups: list[list[int]], asked: list[int]
) -> None:
    runs = HashRuns()
    for number, hashes in enumerate(groups):
        runs.add(column(hashes), pl.repeat(number, len(hashes), dtype=pl.UInt32, eager=True))
    found = runs.find(column(asked)).select(HASH, GROUP).rows()
    expected = [
        (value, number)
        for number, hashes in enumerate(groups)
        for value in hashes
        if value in asked
    ]
    assert sorted(found) == sorted(expected)
    assert len(runs) == sum(map(len, groups))


def test_many_small_additions_leave_few_runs() -> None:
    runs = HashRuns()
    for number in range(1000):
        runs.add(column([number * 7919 % 1009]), pl.Series([number], dtype=pl.UInt32))
    assert len(runs) == 1000
    assert len(runs._runs) <= 10
