"""The pinned input of an evaluation, read from the lake through the governed reader.

The purpose of the read is `replay`.
"""

from atdp.lakehouse import (
    Lake,
    LakehouseError,
    ReadOptions,
    governed_trajectories,
    load_dataset,
)
from atdp.replay.dataset import PinnedDataset
from atdp.replay.errors import ReplayDataError


def pinned_dataset(lake: Lake, name: str) -> PinnedDataset:
    """Return the dataset's trajectories that governance permits for replay.

    Raises:
        ReplayDataError: the dataset does not exist or cannot be read.
    """
    try:
        dataset = load_dataset(lake, name)
        records = governed_trajectories(
            lake,
            purpose="replay",
            tenant=dataset.tenant,
            where=dataset.where,
            snapshots=dataset.snapshots,
            options=ReadOptions(with_messages=False),
        )
    except LakehouseError as error:
        raise ReplayDataError(str(error)) from error
    return PinnedDataset(
        name=name,
        trajectories=records,
        snapshots={str(table): snapshot for table, snapshot in sorted(records.snapshots.items())},
        where=None if dataset.where == "true" else dataset.where,
        policy_versions=tuple(sorted(f"{p['id']}@{p['version']}" for p in dataset.policies)),
        refused=records.refused,
    )
