"""The release flow: candidate, replay gate, canary, promotion or roll-back, each decision an event with its evidence."""

from atdp.control.release.effects import CanaryRoute, Fleet, Router, RouteTable
from atdp.control.release.errors import (
    Conflict,
    EffectFailed,
    EngineSilent,
    PublishFailed,
    Refused,
    ReleaseError,
    StoreError,
)
from atdp.control.release.events import Decided
from atdp.control.release.flow import ReleaseFlow
from atdp.control.release.judge import CanaryCounts, CanaryPolicy, Judgement
from atdp.control.release.line import Line, Stage
from atdp.control.release.manifest import Manifest, read_manifest
from atdp.control.release.store import ReleaseStore

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
