"""What a version has learned from, read from the weight registry: an evaluation must not use that.

Every published version holds `trained_on.parquet` (columns `tenant_id`, `trajectory_id`, `attempt`,
`task_id`) beside its manifest; the manifest names its parent. What the ancestors were trained on is
in the weights too.
"""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from atdp.replay.coverage import TrajectoryKey
from atdp.replay.errors import LineageError

_COLUMNS = ["tenant_id", "trajectory_id", "attempt", "task_id"]


def trained_on(registry: Path, model: str, version: str) -> dict[TrajectoryKey, str | None]:
    """Every trajectory that the version or an ancestor of it was trained on, and its task.

    A version that is not in the registry at all (weights of somebody else's) has none: it can be
    evaluated, but no gate opens for it.

    Raises `LineageError` when a version of the lineage does not say: nothing is known then, which
    is not the same as none.
    """
    found: dict[TrajectoryKey, str | None] = {}
    seen: set[str] = set()
    current: str | None = version if (registry / model / version).is_dir() else None
    while current is not None:
        if current in seen:
            raise LineageError(
                f"{model} {current} is its own ancestor; the manifests in {registry / model} are not sound"
            )
        seen.add(current)
        directory = registry / model / current
        try:
            parent = json.loads((directory / "manifest.json").read_text("utf-8"))["parent"]
            table = pq.read_table(directory / "trained_on.parquet")
            tenants, trajectories, attempts, tasks = (table[name].to_pylist() for name in _COLUMNS)
            found.update(zip(zip(tenants, trajectories, attempts, strict=True), tasks, strict=True))
        except (OSError, ValueError, KeyError, TypeError, pa.ArrowException) as error:
            raise LineageError(
                f"{directory} does not say what {model} {current} was trained on ({error}); publish it again, or evaluate in"
                " sample on purpose"
            ) from error
        current = None if parent is None else str(parent)
    return found
