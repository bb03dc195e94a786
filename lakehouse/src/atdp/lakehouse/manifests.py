"""Manifests: written once per commit, merged by tiers, and read once for good.

A manifest never changes, so what it lists is cached by its path; planning a new snapshot then reads
one small new manifest. Merging keeps their number logarithmic: whenever `FAN_IN` manifests of one
size class have gathered, they become one of the next class, so that every entry is rewritten about
log(files) times in all (pyiceberg's own merge rewrites everything each time).
"""

import builtins
import functools
import uuid
from collections.abc import Iterable, Mapping, Sequence
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
"""Manifests of one size class that make one of the next. Larger: fewer rewrites, slower planning.
"""

COMPRESSION: Literal["deflate"] = "deflate"
"""Of manifests and manifest lists, as Iceberg's own default (`gzip`) does."""
_CACHED_MANIFESTS = 2048  # merged away manifests fall out; about 1 kB per listed file


@dataclass(frozen=True)
class ListedFile:
    """A data file of a snapshot: where it is, what partition it holds, how big it is."""

    path: str
    partition: tuple[object, ...]
    """Values of the partition spec's fields, days as days since the epoch."""
    rows: int
    bytes: int
    upper_bounds: Mapping[int, builtins.bytes]
    """Field id → the largest value in Iceberg's binary form, for columns that have full bounds
    (`tables`)."""


def added_manifest(table: Table, snapshot_id: int, files: Sequence[DataFile]) -> ManifestFile:
    """Write the manifest of a commit's new files; it stays valid for every attempt of that commit."""
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
    """The same files in fewer manifests, where `FAN_IN` of one class have gathered."""
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
    """0 for fewer than FAN_IN files, 1 for fewer than FAN_IN², …; a manifest of one commit is mostly class 0."""
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
    """Every data file of a snapshot.

    Raises:
        LakehouseError: the snapshot has row-level deletes, which a plain list of files cannot
            express.
    """
    snapshot = table.metadata.snapshot_by_id(snapshot_id)
    if snapshot is None:
        return []
    found: list[ListedFile] = []
    for manifest in snapshot.manifests(table.io):
        if manifest.content != ManifestContent.DATA:
            raise LakehouseError(
                f"{table.name()} has row-level deletes (another engine wrote them); rewrite the data files there "
                "(Spark: CALL system.rewrite_data_files) and query again"
            )
        found.extend(_listed(manifest, table.io))
    return found


def _listed(manifest: ManifestFile, io: FileIO) -> Sequence[ListedFile]:
    return _cache(manifest.manifest_path, _Source(manifest, io))


class _Source:
    """A manifest and how to read it; equal to any other, so that the cache looks at the path alone."""

    def __init__(self, manifest: ManifestFile, io: FileIO) -> None:
        self.manifest, self.io = manifest, io

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Source)

    def __hash__(self) -> int:
        return 0


@functools.lru_cache(maxsize=_CACHED_MANIFESTS)
def _cache(_path: str, source: _Source) -> Sequence[ListedFile]:
    found = []
    for entry in source.manifest.fetch_manifest_entry(source.io, discard_deleted=True):
        file = entry.data_file
        if file.content == DataFileContent.DATA:
            found.append(
                ListedFile(
                    path=file.file_path,
                    partition=tuple(file.partition[index] for index in range(len(file.partition))),
                    rows=file.record_count,
                    bytes=file.file_size_in_bytes,
                    upper_bounds=file.upper_bounds or {},
                )
            )
    return tuple(found)
