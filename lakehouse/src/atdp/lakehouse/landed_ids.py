"""The ids of the events that a table holds, kept beside it so that each one can be looked up.

Every record is asked for, whoever sent it, so the answer has to be cheap. `LandedIds` keeps a hash
of tenant and id per row (`hash_runs`) with the files of the commit that the row came with. Only a
hash that is there leads to reading: those files are opened, ids are compared as text together with
their tenant, and only equal ones count. So an event that is no copy costs one binary search, and a
hash that two ids share costs a read and nothing else.

The index follows the table. After its own commit the writer adds what it wrote. When another writer
has committed too, the files that are not known yet are read: two columns, one of them a partition
key. Nothing of the index is stored; a new process reads the ids again from the table.
"""

import secrets
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyiceberg.table import Table

from atdp.lakehouse.errors import CommitRefused
from atdp.lakehouse.hash_runs import GROUP, HASH, HashRuns
from atdp.lakehouse.layout import Layout
from atdp.lakehouse.manifests import ListedFile, files_of
from atdp.lakehouse.storage import filesystem_of, path_in_filesystem

KEY = ("tenant_id", "event_id")
"""An event id belongs to its tenant: two tenants may use the same id for two events."""
PLACE = ("kafka_partition", "kafka_offset")
CONTENT = "content"
"""Column with a hash over the content columns of a row."""

_READERS = 8
"""Threads that read ids at the start; each waits for one small file at a time."""


@dataclass(slots=True)
class LandedIds:
    """The ids in one table, as of the snapshot that `follow` has seen last."""

    layout: Layout
    content: Sequence[str]
    """Columns that are compared when an id comes again; empty: none are."""
    seed: int = field(default_factory=lambda: secrets.randbits(64))
    """Drawn per process, so that nobody can choose ids with equal hashes."""
    _runs: HashRuns = field(default_factory=HashRuns)
    _groups: list[Sequence[str]] = field(default_factory=list)
    """Group number → paths of its files."""
    _known: set[str] = field(default_factory=set)
    """Paths of the files whose ids are in `_runs`."""
    _gone: set[str] = field(default_factory=set)
    """Known files that the table no longer lists, since another engine has rewritten them."""
    _snapshot_id: int | None = None

    def __len__(self) -> int:
        return len(self._runs)

    def hashes(self, rows: pl.DataFrame) -> pl.Series:
        """Return the hash of tenant and id of each row."""
        return rows.select(pl.struct(KEY).hash(self.seed)).to_series()

    def content_hashes(self, rows: pl.DataFrame) -> pl.Series:
        """Return a hash of the content columns of each row."""
        if not self.content:
            return pl.repeat(0, rows.height, dtype=pl.UInt64, eager=True)
        return rows.select(pl.struct(self.content).hash(self.seed)).to_series()

    def follow(self, table: Table) -> None:
        """Read the ids of the files that other writers have added since the last call."""
        head = table.metadata.current_snapshot()
        if head is None or head.snapshot_id == self._snapshot_id:
            return
        files = files_of(table, head.snapshot_id)
        self._gone = self._known - {file.path for file in files}
        self._read_ids(table, [file for file in files if file.path not in self._known])
        self._snapshot_id = head.snapshot_id

    def add(self, table: Table, rows: pl.DataFrame, files: Sequence[str]) -> None:
        """Add the rows that were committed last, as these files, without reading them.

        Does nothing when another writer's commit lies in between; `follow` then reads both.
        """
        head = table.metadata.current_snapshot()
        if head is None or head.parent_snapshot_id != self._snapshot_id:
            return
        named = rows.filter(pl.col("event_id").is_not_null())
        self._add(self.hashes(named), [files], [named.height])
        self._snapshot_id = head.snapshot_id

    def require_new(self, rows: pl.DataFrame, table: Table) -> None:
        """Refuse a commit of `rows` to which another writer's commit has come first with an id.

        Raises:
            CommitRefused: the rows are to be decided about again.
        """
        seen = self._snapshot_id
        self.follow(table)
        if self._snapshot_id == seen:
            return
        copies = self.copies_of(rows, table).height
        if copies:
            raise CommitRefused(
                f"another writer has landed {copies} events of this batch from another partition"
            )

    def copies_of(self, rows: pl.DataFrame, table: Table) -> pl.DataFrame:
        """Return key, place and `CONTENT` of the landed rows that have the key of one of `rows`."""
        hashes = self.hashes(rows)
        entries = self._runs.find(hashes)
        numbers = entries[GROUP].unique().to_list()
        paths = {path for number in numbers for path in self._groups[number]} - self._gone
        suspects = rows.filter(hashes.is_in(entries[HASH].unique().implode()))
        landed = self._read_rows(table, sorted(paths), suspects["event_id"].unique())
        landed = landed.join(suspects.select(KEY).unique(), on=KEY, how="semi")
        return landed.select(*KEY, *PLACE, self.content_hashes(landed).alias(CONTENT))

    def _add(self, hashes: pl.Series, groups: Sequence[Sequence[str]], rows: Sequence[int]) -> None:
        """Add hashes that lie one group after the other, `rows` of each."""
        first = len(self._groups)
        numbers = pl.Series(range(first, first + len(groups)), dtype=pl.UInt32)
        self._groups.extend(groups)
        self._known.update(path for paths in groups for path in paths)
        counted = pl.DataFrame({GROUP: numbers, "rows": pl.Series(rows, dtype=pl.UInt32)})
        repeated = counted.select(pl.col(GROUP).repeat_by("rows")).to_series().explode()
        self._runs.add(hashes, repeated.drop_nulls())

    def _read_ids(self, table: Table, files: Sequence[ListedFile]) -> None:
        if not files:
            return
        filesystem = filesystem_of(table)

        def read(file: ListedFile) -> pl.Series:
            path = path_in_filesystem(file.path)
            ids = pq.read_table(path, columns=["event_id"], filesystem=filesystem)
            named = pl.DataFrame(ids).filter(pl.col("event_id").is_not_null())
            return self.hashes(named.with_columns(tenant_id=pl.lit(file.partition[0], pl.String)))

        with ThreadPoolExecutor(_READERS) as readers:
            hashes = list(readers.map(read, files))
        self._add(pl.concat(hashes), [(file.path,) for file in files], [len(h) for h in hashes])

    def _read_rows(self, table: Table, paths: Collection[str], ids: pl.Series) -> pl.DataFrame:
        names = [*KEY, *PLACE, *(name for name in self.content if name not in {*KEY, *PLACE})]
        types = pl.Schema({name: self.layout.frame_schema[name] for name in names})
        if not paths:
            return pl.DataFrame(schema=types)
        source = ds.dataset(
            [path_in_filesystem(path) for path in paths],
            schema=pa.schema([self.layout.arrow_schema.field(name) for name in names]),
            filesystem=filesystem_of(table),
            format="parquet",
        )
        wanted = pc.field("event_id").isin(ids.to_arrow())
        return pl.DataFrame(source.to_table(filter=wanted)).cast(types)
