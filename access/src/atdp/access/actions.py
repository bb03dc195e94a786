"""The actions on data that are authorized, and the permission of a role that each one needs."""

from collections.abc import Mapping
from typing import Final, Literal, get_args

from atdp.runtime import Permission

Action = Literal["ingest", "preview", "analytics", "replay", "train", "export", "erase"]

ACTIONS: Final[frozenset[str]] = frozenset(get_args(Action))

PERMISSION_OF: Final[Mapping[str, Permission]] = {
    "ingest": "emit",
    "preview": "preview",
    "analytics": "read:analytics",
    "replay": "read:replay",
    "train": "read:train",
    "export": "read:export",
    "erase": "erase",
}
"""The permission that the principal's role must have."""

RESTRICTED_ACTIONS: Final[frozenset[str]] = frozenset({"replay", "train", "export"})
"""Actions that are decided for single trajectories only, never for all data of a tenant."""

GOVERNED_ACTIONS: Final[frozenset[str]] = RESTRICTED_ACTIONS | {"analytics"}
"""Actions that read governed data: never quarantined, never expired, never without a stamp."""
