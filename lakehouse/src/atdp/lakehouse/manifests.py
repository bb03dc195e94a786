"""Manifests: written once per commit, merged by size classes, and read only once.

A manifest never changes, so its list of files is cached by its path. Planning a new snapshot then
reads one small new manifest. Merging keeps the number of manifests logarithmic: when there are
`FAN_IN` manifests of one size class, they become one manifest of the next class. Every entry is
thereby rewritten about log(files) times in all (pyiceberg's own merge rewrites everything each
time).
"""

import threading
import uuid
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from pyiceberg.io import FileIO
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriter,
    write_manifest,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table

from atdp.lakehouse.errors import LakehouseError

FAN_IN = 16
"""Manifests of one size class that make one of the next. A larger number means fewer rewrites and
slower planning."""

COMPRESSION: Literal["deflate"] = "deflate"
"""Compression of manifests and manifest lists; it is Iceberg's own default (`gzip`)."""

_CACHED_MANIFESTS = 2048
"""Manifests whose lists are kept, the last used ones; about 1 kB per listed file. Those that were
merged away are no longer used and so are dropped in time."""


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A data file of a snapshot: its location, its partition and its size."""

    path: str
    partition: tuple[object, ...]
    """Values of the partition spec's fields; a day is its number of days since the epoch."""
    rows: int
    bytes: int


def added_manifest(table: Table, snapshot_id: int, files: Sequence[DataFile]) -> ManifestFile:
    """Write the manifest of a commit's new files; it is valid for every attempt of that commit."""
    writer = _writer(table, table.spec(), table.schema(), snapshot_id)
    with writer:
        for file in files:
            writer.add(
                ManifestEntry.from_args(
                    status=ManifestEntryStatus.ADDED,
                    snapshot_id=snapshot_id,
                    sequence_number=None,
                    file_sequence_number=None,
                    data_file=file,
                )
            )
    return writer.to_manifest_file()


def merged(table: Table, snapshot_id: int, manifests: Sequence[ManifestFile]) -> list[ManifestFile]:
    """Return manifests with the same files; `FAN_IN` of one size class are merged into one."""
    classes: dict[tuple[int, int], list[ManifestFile]] = {}
    kept = []
    for manifest in manifests:
        if manifest.content != ManifestContent.DATA:
            kept.append(manifest)
        else:
            classes.setdefault((manifest.partition_spec_id, _size_class(manifest)), []).append(
                manifest
            )
    for (spec_id, _), group in classes.items():
        if len(group) < FAN_IN:
            kept.extend(group)
        else:
            kept.append(_merge(table, snapshot_id, table.specs()[spec_id], group))
    return kept


def _size_class(manifest: ManifestFile) -> int:
    """Return 0 for fewer than FAN_IN files, 1 for fewer than FAN_IN², and so on.

    The manifest of one commit is mostly of class 0.
    """
    files = (manifest.added_files_count or 0) + (manifest.existing_files_count or 0)
    size = 0
    while files >= FAN_IN:
        files //= FAN_IN
        size += 1
    return size


def _merge(
    table: Table, snapshot_id: int, spec: PartitionSpec, group: Iterable[ManifestFile]
) -> ManifestFile:
    writer = _writer(table, spec, table.schema(), snapshot_id)
    with writer:
        for manifest in group:
            for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
                writer.existing(
                    ManifestEntry.from_args(
                        status=ManifestEntryStatus.EXISTING,
                        snapshot_id=entry.snapshot_id,
                        sequence_number=entry.sequence_number,
                        file_sequence_number=entry.file_sequence_number,
                        data_file=entry.data_file,
                    )
                )
    return writer.to_manifest_file()


def _writer(table: Table, spec: PartitionSpec, schema: Schema, snapshot_id: int) -> ManifestWriter:
    path = table.location_provider().new_metadata_location(f"{uuid.uuid4()}-m0.avro")
    return write_manifest(
        format_version=table.metadata.format_version,
        spec=spec,
        schema=schema,
        output_file=table.io.new_output(path),
        snapshot_id=snapshot_id,
        avro_compression=COMPRESSION,
    )


def files_of(table: Table, snapshot_id: int) -> list[ListedFile]:
    """Return every data file of a snapshot.

    Raises:
        LakehouseError: the snapshot has row-level deletes, which a plain list of files cannot
            express.
    """
    snapshot = table.metadata.snapshot_by_id(snapshot_id)
    if snapshot is None:
        return []
    files: list[ListedFile] = []
    for manifest in snapshot.manifests(table.io):
        if manifest.content != ManifestContent.DATA:
            raise LakehouseError(
                f"{table.name()} has row-level deletes (another engine wrote them); "
                "rewrite the data files there (Spark: "
                "CALL system.rewrite_data_files) and query again"
            )
        files.extend(_cache.files(manifest, table.io))
    return files


class _ManifestCache:
    """The files of the manifests that were used last, by the path of the manifest."""

    def __init__(self) -> None:
        self._files: OrderedDict[str, Sequence[ListedFile]] = OrderedDict()
        self._lock = threading.Lock()

    def files(self, manifest: ManifestFile, io: FileIO) -> Sequence[ListedFile]:
        """Return the data files that a manifest lists, read only when they are not cached."""
        path = manifest.manifest_path
        with self._lock:
            if path in self._files:
                self._files.move_to_end(path)
                return self._files[path]
        files = _read_files(manifest, io)
        with self._lock:
            self._files[path] = files
            while len(self._files) > _CACHED_MANIFESTS:
                self._files.popitem(last=False)
        return files


_cache = _ManifestCache()


def _read_files(manifest: ManifestFile, io: FileIO) -> Sequence[ListedFile]:
    return tuple(
        ListedFile(
            path=file.file_path,
            partition=tuple(file.partition[index] for index in range(len(file.partition))),
            rows=file.record_count,
            bytes=file.file_size_in_bytes,
        )
        for entry in manifest.fetch_manifest_entry(io, discard_deleted=True)
        if (file := entry.data_file).content == DataFileContent.DATA
    )
