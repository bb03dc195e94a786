"""Records per second from Avro bytes to committed Parquet, and how commits grow.

    python benchmarks/sink.py [--records 75000] [--commits 200] [--json]

Compared with the plain implementation: fastavro record by record, `pyarrow.Table.from_pylist`,
`pyiceberg.Table.append` (unpartitioned, one table, no positions). Both write the same events to a
local SQLite catalog. CPU seconds are of this process; wall times depend on what else runs.
"""

import argparse
import json
import tempfile
import time
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any, Self

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.table import Table

from atdp.lakehouse import open_lake
from atdp.lakehouse.tables import table_definitions
from atdp.lakehouse.testing import LogDouble, encoded, many
from atdp.schemas.codec import decode_record
from atdp.schemas.values import Event

BATCH = 25_000
EVENTS_PER_COMMIT = 100
_OURS = {"allowed_purposes", "kafka_partition", "kafka_offset", "ingested_at"}
"""Columns that the lake writer adds."""


@dataclass(slots=True)
class Clock:
    """Wall and CPU seconds of a block."""

    wall: float = 0.0
    cpu: float = 0.0
    _wall_start: float = 0.0
    _cpu_start: float = 0.0

    def __enter__(self) -> Self:
        self._wall_start, self._cpu_start = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        self.wall = time.perf_counter() - self._wall_start
        self.cpu = time.process_time() - self._cpu_start


def events(count: int) -> list[Event]:
    endless = (event for sample in many(1 << 30, tokens=40) for event in sample.events())
    return list(islice(endless, count))


class Naive:
    """The plain implementation: record by record, one table, no positions."""

    def __init__(self, folder: Path) -> None:
        catalog = SqlCatalog(
            "naive", uri=f"sqlite:///{folder}/naive.sqlite", warehouse=folder.as_uri()
        )
        catalog.create_namespace("atdp")
        definition = table_definitions()["events"]
        without = [field for field in definition.schema.fields if field.name not in _OURS]
        self.table: Table = catalog.create_table(
            ("atdp", "events"), type(definition.schema)(*without)
        )
        self.schema: pa.Schema = schema_to_pyarrow(self.table.schema())

    def land(self, values: list[bytes]) -> None:
        records = [decode_record(value)[1] for value in values]
        self.table.append(pa.Table.from_pylist(records, schema=self.schema))


def throughput(count: int, folder: Path) -> list[dict[str, Any]]:
    emitted = events(count)
    values = encoded(emitted)
    size = sum(map(len, values)) / len(values)
    log = LogDouble(open_lake(folder / "home"))
    batches = [
        log.batch(
            zip(
                (event.key for event in emitted[at : at + BATCH]),
                values[at : at + BATCH],
                strict=True,
            )
        )
        for at in range(0, count, BATCH)
    ]
    warm, rest = batches[0], batches[1:]
    log.sink.write(warm)
    with Clock() as ours:
        for batch in rest:
            log.sink.write(batch)
    naive = Naive(folder)
    naive.land(values[:BATCH])
    with Clock() as plain:
        for at in range(BATCH, count, BATCH):
            naive.land(values[at : at + BATCH])
    landed = count - BATCH
    return [
        {
            "path": name,
            "records": landed,
            "bytes_per_record": round(size),
            "per_second": round(landed / clock.wall),
            "per_cpu_second": round(landed / clock.cpu),
        }
        for name, clock in (
            ("atdp sink (3 tables)", ours),
            ("fastavro + pyiceberg append (1 table)", plain),
        )
    ]


def growth(commits: int, folder: Path) -> list[dict[str, Any]]:
    emitted = events(commits * EVENTS_PER_COMMIT)
    lake = open_lake(folder / "growth")
    log, naive = LogDouble(lake), Naive(folder / "growth")
    sink = next(sink for sink in log.sink.sinks if sink.definition.name == "events")
    ours: list[Clock] = []
    plain: list[Clock] = []
    for at in range(0, len(emitted), EVENTS_PER_COMMIT):
        chosen = emitted[at : at + EVENTS_PER_COMMIT]
        values = encoded(chosen)
        batch = log.batch(zip((event.key for event in chosen), values, strict=True))
        with Clock() as clock:
            sink.write(log.sink._decode(batch), batch.end)
        ours.append(clock)
        with Clock() as clock:
            naive.land(values)
        plain.append(clock)
    tenth = max(commits // 10, 1)
    return [
        {
            "commits": f"{at + 1}-{min(at + tenth, commits)}",
            "atdp_cpu_ms": _ms(ours[at : at + tenth], "cpu"),
            "atdp_wall_ms": _ms(ours[at : at + tenth], "wall"),
            "naive_cpu_ms": _ms(plain[at : at + tenth], "cpu"),
            "naive_wall_ms": _ms(plain[at : at + tenth], "wall"),
        }
        for at in range(0, commits, tenth)
    ]


def _ms(clocks: list[Clock], kind: str) -> float:
    return round(float(median(getattr(clock, kind) for clock in clocks)) * 1000, 1)


def show(rows: list[dict[str, Any]]) -> None:
    lines = [list(rows[0]), *([str(value) for value in row.values()] for row in rows)]
    widths = [max(len(line[index]) for line in lines) for index in range(len(lines[0]))]
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=75_000)
    parser.add_argument("--commits", type=int, default=200)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="atdp-sink-") as folder:
        results = {
            "throughput": throughput(options.records, Path(folder)),
            "growth": growth(options.commits, Path(folder)),
        }
    if options.json:
        print(json.dumps(results, indent=1))
        return
    for name, rows in results.items():
        print(f"\n{name} (growth: median per commit of {EVENTS_PER_COMMIT} events to `events`)")
        show(rows)
    first, last = results["growth"][0], results["growth"][-1]
    ours, naive = (last[name] / first[name] for name in ("atdp_cpu_ms", "naive_cpu_ms"))
    print(f"\natdp grows {ours:.2f}x, naive {naive:.2f}x")


if __name__ == "__main__":
    main()
