"""Iceberg tables, exactly-once sink, datasets and governed SQL of ATDP."""

from atdp.lakehouse.connection import Connection, Limits, connect
from atdp.lakehouse.datasets import Dataset, create_dataset, list_datasets, load_dataset
from atdp.lakehouse.errors import (
    CatalogError,
    DatasetError,
    LakehouseError,
    QueryFailed,
    QueryRefused,
    SnapshotGone,
)
from atdp.lakehouse.lake import Lake, open_lake
from atdp.lakehouse.reader import (
    GenerationRecord,
    GovernedTrajectories,
    TrajectoryRecord,
    governed_trajectories,
)
from atdp.lakehouse.result import Result
from atdp.lakehouse.settings import LakeSettings

__all__ = [
    "CatalogError",
    "Connection",
    "Dataset",
    "DatasetError",
    "GenerationRecord",
    "GovernedTrajectories",
    "Lake",
    "LakeSettings",
    "LakehouseError",
    "Limits",
    "QueryFailed",
    "QueryRefused",
    "Result",
    "SnapshotGone",
    "TrajectoryRecord",
    "connect",
    "create_dataset",
    "governed_trajectories",
    "list_datasets",
    "load_dataset",
    "open_lake",
]
