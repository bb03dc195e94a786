"""tau-bench files of the tests: a made-up one, and the real ones where they are at hand."""

import json
from pathlib import Path

from atdp.adapters import IMPORTERS, ImportedTrajectory

FILE = Path(__file__).parent / "fixtures" / "tau_library.json"
REAL = Path(__file__).parents[4] / "shared" / "data" / "tau_bench_retail"


def read(path: Path = FILE) -> list[ImportedTrajectory]:
    """Return the trajectories of a file that has no unreadable row."""
    entries = list(IMPORTERS["tau-bench"].read(path))
    trajectories = [entry for entry in entries if isinstance(entry, ImportedTrajectory)]
    assert trajectories == entries
    return trajectories


def written(folder: Path, rows: object) -> Path:
    """Write a result file and return its path."""
    path = folder / "run.json"
    path.write_text(rows if isinstance(rows, str) else json.dumps(rows), "utf-8")
    return path
