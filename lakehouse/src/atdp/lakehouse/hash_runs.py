"""Sorted runs of hashes: which groups of files may hold a key, in memory.

A key is known by its 64-bit hash, a group of files by its number, so an entry takes 12 bytes.
Entries lie in runs that are sorted by hash. A new run is merged with its predecessors until each
run is more than twice as long as the next one (the scheme of a log-structured merge tree), so there
are at most log2(n) runs, and each entry is merged about log2(n) times in all.

Asking for m keys is one binary search per run with sorted needles: 8 ms for 25,000 keys among ten
million. Equal hashes of different keys give entries that the caller has to check; no entry is ever
missing.
"""

from dataclasses import dataclass, field

import polars as pl

HASH = "hash"
GROUP = "group"
_SCHEMA = {HASH: pl.UInt64, GROUP: pl.UInt32}


@dataclass(slots=True)
class HashRuns:
    """Entries of hash and group, sorted by hash."""

    _runs: list[pl.DataFrame] = field(default_factory=list)
    """The longest first."""

    def __len__(self) -> int:
        return sum(run.height for run in self._runs)

    def add(self, hashes: pl.Series, groups: pl.Series) -> None:
        """Add one entry per hash, each with the number of its group."""
        if hashes.is_empty():
            return
        entries = {HASH: hashes.cast(pl.UInt64), GROUP: groups.cast(pl.UInt32)}
        run = pl.DataFrame(entries).sort(HASH)
        while self._runs and self._runs[-1].height <= 2 * run.height:
            run = self._runs.pop().merge_sorted(run, key=HASH).rechunk()
        self._runs.append(run)

    def find(self, hashes: pl.Series) -> pl.DataFrame:
        """Return the entries whose hash is one of `hashes`, as columns `HASH` and `GROUP`."""
        needles = hashes.unique().sort()
        entries = [_entries(run, needles) for run in self._runs] if len(needles) else []
        return pl.concat([pl.DataFrame(schema=_SCHEMA), *entries])


def _entries(run: pl.DataFrame, needles: pl.Series) -> pl.DataFrame:
    hashes = run[HASH]
    first = hashes.search_sorted(needles, side="left")
    present = hashes.gather(first.clip(upper_bound=run.height - 1)) == needles
    if not present.any():
        return run.clear()
    after = hashes.search_sorted(needles.filter(present), side="right")
    places = pl.select(pl.int_ranges(first.filter(present), after)).to_series().explode()
    return run[places]
