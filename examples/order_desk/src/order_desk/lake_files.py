"""The lake's data files, read as plain Parquet, without the writer's counts and the SQL layer.

Iceberg tells which files belong to the current snapshot; their content is read here.
"""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlparse

import pyarrow as pa
import pyarrow.parquet as pq

from atdp.lakehouse import Lake, TableName, table_definitions
from order_desk.errors import DemoError


def data_files(lake: Lake, table: TableName) -> list[Path]:
    """Return the data files of a table's current snapshot.

    Raises:
        DemoError: the warehouse is not on this machine's disk.
    """
    return [_local(task.file.file_path) for task in lake.table(table).scan().plan_files()]


def landed_ids(lake: Lake) -> list[str]:
    """Return the event id of every row of the `events` table."""
    ids: list[str] = []
    for file in data_files(lake, "events"):
        rows = pq.read_table(file, columns=["event_id"], partitioning=None)
        ids += rows["event_id"].to_pylist()
    return ids


def tables(lake: Lake) -> Iterator[tuple[TableName, pa.Table]]:
    """Yield every table's rows, file by file."""
    for name in table_definitions():
        for file in data_files(lake, name):
            yield name, pq.read_table(file, partitioning=None)


def _local(path: str) -> Path:
    parsed = urlparse(path)
    if parsed.scheme not in {"", "file"}:
        raise DemoError(
            f"The demo counts files on this machine's disk, and {path} is elsewhere. "
            "Unset ATDP_WAREHOUSE."
        )
    return Path(parsed.path)  # the tables name their files as they are on the disk
