"""What can be asked of a release line; `decider.decide` answers with events, or refuses."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias

from atdp.control.events import GateRecorded
from atdp.control.judge import CanaryCounts, CanaryPolicy


@dataclass(frozen=True, kw_only=True)
class Bootstrap:
    """Put the first version live."""

    model: str
    tenants: tuple[str, ...]
    version: str
    weights_sha256: str
    reason: str
    evidence_ttl_s: int = 7 * 24 * 3600


@dataclass(frozen=True, kw_only=True)
class Register:
    """Make a candidate known."""

    version: str
    weights_sha256: str
    parent: str | None = None
    run_id: str | None = None
    snapshots: Mapping[str, int] = field(default_factory=dict)
    policy_versions: tuple[str, ...] = ()
    trajectories_used: int | None = None


@dataclass(frozen=True, kw_only=True)
class RecordGate:
    """Record what replay said."""

    gate: GateRecorded


@dataclass(frozen=True, kw_only=True)
class StartCanary:
    """Give a candidate its first share of sessions."""

    version: str
    weights_sha256: str
    steps: tuple[float, ...]
    salt: str
    policy: CanaryPolicy
    at: datetime


@dataclass(frozen=True, kw_only=True)
class Observe:
    """Judge the canary: counts since the current step began (or was resumed)."""

    version: str
    counts: CanaryCounts
    snapshots: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class RaiseShare:
    """Take the next step."""

    version: str


@dataclass(frozen=True, kw_only=True)
class Resume:
    """Go on with a paused canary."""

    version: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Promote:
    """Make the canary live."""

    version: str


@dataclass(frozen=True, kw_only=True)
class RollBack:
    """Take this version off, canary or live, and return to what was live before."""

    version: str
    reason: str


Command: TypeAlias = (
    Bootstrap
    | Register
    | RecordGate
    | StartCanary
    | Observe
    | RaiseShare
    | Resume
    | Promote
    | RollBack
)
