"""Reads the pinned input from the lake, through the governed reader (purpose `replay`).

Held out means: not used to train the candidate. The candidate's manifest tells how far its run had got in the stream
(per partition a mark, plus what it used beyond); everything it decided about is set aside. That is cautious: the run may
have passed over some of it.
"""

import json
from pathlib import Path
from typing import Any

from atdp.lakehouse import Lake, LakehouseError, TrajectoryRecord, governed_trajectories, load_dataset
from atdp.replay.coverage import TrajectoryKey
from atdp.replay.dataset import PinnedDataset
from atdp.replay.errors import DatasetError


def pinned_dataset(lake: Lake, name: str) -> PinnedDataset:
    """The dataset's trajectories as far as governance allows them for replay. Raises `DatasetError`."""
    try:
        dataset = load_dataset(lake, name)
        records = governed_trajectories(
            lake,
            purpose="replay",
            tenant=dataset.tenant,
            where=dataset.where,
            snapshots=dataset.snapshots,
            with_messages=False,
        )
    except LakehouseError as error:
        raise DatasetError(str(error)) from error
    return PinnedDataset(
        name=name,
        trajectories=records,
        snapshots={str(table): snapshot for table, snapshot in sorted(records.snapshots.items())},
        where=None if dataset.where == "true" else dataset.where,
        policy_versions=tuple(sorted(f"{p['id']}@{p['version']}" for p in dataset.policies)),
        refused=records.refused,
    )


def trained_on(dataset: PinnedDataset, manifest_file: Path) -> frozenset[TrajectoryKey]:
    """Trajectories of the dataset that the version's training run had decided about.

    Raises `DatasetError` when the manifest cannot be read; a manifest without positions names none.
    """
    try:
        manifest = json.loads(manifest_file.read_text("utf-8"))
        positions = manifest.get("positions") or {}
        marks = {int(partition): int(offset) for partition, offset in (positions.get("marks") or {}).items()}
        listed = {(str(d[0]), str(d[1]), int(d[2])) for d in positions.get("decided") or ()}
    except FileNotFoundError:
        return frozenset()
    except (ValueError, TypeError, AttributeError, IndexError, KeyError) as error:
        raise DatasetError(
            f"{manifest_file} does not say what the candidate was trained on ({error}); publish it again, or evaluate"
            " in sample on purpose"
        ) from error
    return frozenset(_key(t) for t in dataset.trajectories if _decided(t, marks, listed))


def _decided(trajectory: Any, marks: dict[int, int], listed: set[TrajectoryKey]) -> bool:
    if not isinstance(trajectory, TrajectoryRecord):
        return False
    below = trajectory.first_offset <= marks.get(trajectory.kafka_partition, -1)
    return below or _key(trajectory) in listed


def _key(trajectory: Any) -> TrajectoryKey:
    return (trajectory.tenant_id, trajectory.trajectory_id, trajectory.attempt)
