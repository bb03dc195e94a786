"""Reads the pinned input from the lake, through the governed reader (purpose `replay`)."""

from atdp.lakehouse import Lake, LakehouseError, governed_trajectories, load_dataset
from atdp.replay.dataset import PinnedDataset
from atdp.replay.errors import ReplayDataError


def pinned_dataset(lake: Lake, name: str) -> PinnedDataset:
    """The dataset's trajectories as far as governance allows them for replay.

    Raises `ReplayDataError`.
    """
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
        raise ReplayDataError(str(error)) from error
    return PinnedDataset(
        name=name,
        trajectories=records,
        snapshots={str(table): snapshot for table, snapshot in sorted(records.snapshots.items())},
        where=None if dataset.where == "true" else dataset.where,
        policy_versions=tuple(sorted(f"{p['id']}@{p['version']}" for p in dataset.policies)),
        refused=records.refused,
    )
