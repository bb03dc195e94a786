"""Iceberg tables, exactly-once sink, datasets and governed SQL of ATDP."""

from .connection import Connection, Limits, connect
from .datasets import Dataset, create_dataset, list_datasets, load_dataset
from .errors import (
    CatalogError,
    DatasetError,
    LakehouseError,
    QueryFailed,
    QueryRefused,
    SnapshotGone,
)
from .lake import Lake, open_lake
from .reader import GenerationRecord, GovernedTrajectories, TrajectoryRecord, governed_trajectories
from .result import Result
from .settings import LakeSettings

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
