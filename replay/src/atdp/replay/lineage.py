"""The trajectories that a version was trained on, read from the weight registry.

An evaluation must not use them. Every published version holds `trained_on.parquet` (columns
`tenant_id`, `trajectory_id`, `attempt`, `task_id`) beside its manifest, and the manifest names its
parent. The weights also depend on what the ancestors were trained on.
"""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from atdp.replay.coverage import TrajectoryKey
from atdp.replay.errors import LineageError

_COLUMNS = ["tenant_id", "trajectory_id", "attempt", "task_id"]


def trained_on(registry: Path, model: str, version: str) -> dict[TrajectoryKey, str | None]:
    """Return every trajectory that the version or an ancestor was trained on, with its task.

    A version that is not in the registry (weights of another owner) has none: it can be evaluated,
    but no release gate opens for it.

    Raises:
        LineageError: a version of the lineage does not record what it was trained on. This is
            different from a version that was trained on nothing.
    """
    learned: dict[TrajectoryKey, str | None] = {}
    seen: set[str] = set()
    current: str | None = version if (registry / model / version).is_dir() else None
    while current is not None:
        if current in seen:
            raise LineageError(
                f"{model} {current} is its own ancestor; "
                f"the manifests in {registry / model} are damaged"
            )
        seen.add(current)
        parent, trajectories = _read_version(registry / model / current, f"{model} {current}")
        learned.update(trajectories)
        current = parent
    return learned


def _read_version(directory: Path, name: str) -> tuple[str | None, dict[TrajectoryKey, str | None]]:
    """Return a version's parent and its own training trajectories."""
    try:
        parent = json.loads((directory / "manifest.json").read_text("utf-8"))["parent"]
        table = pq.read_table(directory / "trained_on.parquet")
        tenants, trajectories, attempts, tasks = (table[column].to_pylist() for column in _COLUMNS)
        keys = zip(tenants, trajectories, attempts, strict=True)
        learned = dict(zip(keys, tasks, strict=True))
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowException) as error:
        raise LineageError(
            f"{directory} does not say what {name} was trained on ({error}); "
            "publish it again, or evaluate with `--in-sample`"
        ) from error
    return None if parent is None else str(parent), learned
