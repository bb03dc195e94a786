"""The release flow: candidate, replay gate, canary, promotion or roll-back, each decision an event with its evidence."""

from atdp.control.effects import CanaryRoute, Fleet, Router, RouteTable
from atdp.control.errors import (
    Conflict,
    EffectFailed,
    EngineSilent,
    PublishFailed,
    Refused,
    ReleaseError,
    StoreError,
)
from atdp.control.events import Decided
from atdp.control.flow import ReleaseFlow
from atdp.control.judge import CanaryCounts, CanaryPolicy, Judgement
from atdp.control.manifest import Manifest, read_manifest
from atdp.control.state import Line, Stage
from atdp.control.store import ReleaseStore

__all__ = [
    "CanaryCounts",
    "CanaryPolicy",
    "CanaryRoute",
    "Conflict",
    "Decided",
    "EffectFailed",
    "EngineSilent",
    "Fleet",
    "Judgement",
    "Line",
    "Manifest",
    "PublishFailed",
    "Refused",
    "ReleaseError",
    "ReleaseFlow",
    "ReleaseStore",
    "RouteTable",
    "Router",
    "Stage",
    "StoreError",
    "read_manifest",
]
