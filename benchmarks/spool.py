"""The cost of one append of 2 KB to the SDK's spool, in microseconds of the appending thread's CPU.

    python benchmarks/spool.py [--records 12000] [--folder DIR] [--json]

Unpaced, and at a pace of one append in a millisecond, when caches are cold. Another thread
acknowledges every hundred records, as the sender does. The time between two appends is not counted.
"""

import argparse
import json
import os
import statistics
import tempfile
import threading
import time
from pathlib import Path

from atdp.sdk.file_spool import FileSpool
from atdp.sdk.memory_spool import MemorySpool
from atdp.sdk.record_framing import SpoolRecord
from atdp.sdk.spool import DEFAULT_LIMIT_BYTES, Spool
from atdp.sdk.spool_locks import SpoolFolders

VALUE_BYTES, ACKNOWLEDGED, PAUSE_S = 2048, 100, 0.001
DURABILITIES = ("memory", "process", "disk")


def open_spool(root: Path, durability: str) -> Spool:
    if durability == "memory":
        return MemorySpool(DEFAULT_LIMIT_BYTES)
    folders = SpoolFolders(root)
    return FileSpool(folders.create(), folders, sync=durability == "disk")


def append_costs(spool: Spool, count: int, pause_s: float) -> list[float]:
    """CPU time in µs of each of `count` appends."""
    value = os.urandom(VALUE_BYTES)
    costs = []
    for number in range(1, count + 1):
        record = SpoolRecord(record_id=os.urandom(16), key=b"acme/0123456789abcdef", value=value)
        if pause_s:
            time.sleep(pause_s)
        before = time.thread_time_ns()
        spool.append(record)
        costs.append((time.thread_time_ns() - before) / 1000)
        if number % ACKNOWLEDGED == 0:
            sender = threading.Thread(target=spool.acknowledge, args=(spool.end,))
            sender.start()
            sender.join()
    return costs


def row(durability: str, pace: str, costs: list[float]) -> dict[str, object]:
    percentiles = statistics.quantiles(costs, n=100)
    return {
        "durability": durability,
        "pace": pace,
        "mean_us": round(statistics.mean(costs), 2),
        "p50_us": round(percentiles[49], 2),
        "p99_us": round(percentiles[98], 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=12_000)
    parser.add_argument("--folder", type=Path, help="a folder on the disk to be measured")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = []
    for durability in DURABILITIES:
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            spool = open_spool(Path(folder), durability)
            rows.append(row(durability, "unpaced", append_costs(spool, options.records, 0.0)))
            paced = append_costs(spool, options.records // 10, PAUSE_S)
            rows.append(row(durability, "1 in 1 ms", paced))
            spool.close()
    if options.json:
        print(json.dumps(rows, indent=2))
        return
    for each in rows:
        print(" | ".join(str(value) for value in each.values()))


if __name__ == "__main__":
    main()
