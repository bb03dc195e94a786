from .admission import (
    AdmissionRules as AdmissionRules,
    GenerationFacts as GenerationFacts,
    InadmissibleReason as InadmissibleReason,
    why_inadmissible as why_inadmissible,
)
from .conditions import condition_problems as condition_problems
from .connection import (
    Connection as Connection,
    QueryLimits as QueryLimits,
    connect as connect,
    withheld_by as withheld_by,
)
from .datasets import (
    Dataset as Dataset,
    create_dataset as create_dataset,
    list_datasets as list_datasets,
    load_dataset as load_dataset,
    remove_dataset as remove_dataset,
)
from .duckdb_sql import sql_literal as sql_literal
from .errors import (
    CatalogError as CatalogError,
    DatasetError as DatasetError,
    LakehouseError as LakehouseError,
    QueryFailed as QueryFailed,
    QueryRefused as QueryRefused,
    RulesUnreadable as RulesUnreadable,
    SnapshotGone as SnapshotGone,
)
from .http import sql_router as sql_router
from .lake import Lake as Lake, open_lake as open_lake
from .query_result import QueryResult as QueryResult
from .reader import (
    ReadOptions as ReadOptions,
    governed_trajectories as governed_trajectories,
    withheld_among as withheld_among,
)
from .settings import LakeSettings as LakeSettings
from .stamped_resources import trajectory_resources as trajectory_resources
from .tables import TableName as TableName, table_definitions as table_definitions
from .trajectory_records import (
    GenerationRecord as GenerationRecord,
    GovernedTrajectories as GovernedTrajectories,
    StepReward as StepReward,
    TrajectoryRecord as TrajectoryRecord,
)
from .visible_files import ANY_PURPOSE as ANY_PURPOSE
from .withheld import Withheld as Withheld
