from .admission import (
    AdmissionRules as AdmissionRules,
    GenerationFacts as GenerationFacts,
    InadmissibleReason as InadmissibleReason,
    why_inadmissible as why_inadmissible,
)
from .connection import Connection as Connection, Limits as Limits, connect as connect
from .datasets import (
    Dataset as Dataset,
    create_dataset as create_dataset,
    list_datasets as list_datasets,
    load_dataset as load_dataset,
)
from .duck_types import text as text
from .errors import (
    CatalogError as CatalogError,
    DatasetError as DatasetError,
    LakehouseError as LakehouseError,
    QueryFailed as QueryFailed,
    QueryRefused as QueryRefused,
    SnapshotGone as SnapshotGone,
)
from .http import router as router
from .lake import Lake as Lake, open_lake as open_lake
from .reader import (
    GenerationRecord as GenerationRecord,
    GovernedTrajectories as GovernedTrajectories,
    TrajectoryRecord as TrajectoryRecord,
    governed_trajectories as governed_trajectories,
)
from .result import Result as Result
from .settings import LakeSettings as LakeSettings
from .tables import TableName as TableName, table_definitions as table_definitions
