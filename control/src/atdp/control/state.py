"""State of a release line, folded from its events: what is live, what is tried, what every candidate has shown.

`evolve` is total over valid histories and pure: no clock, no randomness. It trusts events, because
only `decide` makes them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import reduce
from types import MappingProxyType
from typing import assert_never

from atdp.control.events import (
    Body,
    Bootstrapped,
    CanaryObserved,
    CanaryPaused,
    CanaryResumed,
    CanaryRolledBack,
    CanaryShareRaised,
    CanaryStarted,
    CandidateRegistered,
    CandidateRejected,
    GateRecorded,
    LiveRolledBack,
    Promoted,
)
from atdp.control.judge import CanaryPolicy
from atdp.replay import Verdict


class ReleaseStage(StrEnum):
    """Where a version stands."""

    REGISTERED = "registered"
    REJECTED = "rejected"
    CANARY = "canary"
    PAUSED = "paused"
    LIVE = "live"
    SUPERSEDED = "superseded"
    ROLLED_BACK = "rolled back"


@dataclass(frozen=True, kw_only=True)
class Version:
    """A version of the line and its evidence."""

    name: str
    weights_sha256: str
    stage: ReleaseStage
    gates: tuple[GateRecorded, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Canary:
    """The one canary. `passed` tells whether the current step has its PASS."""

    version: str
    engine: str
    steps: tuple[float, ...]
    step: int
    salt: str
    policy: CanaryPolicy
    passed: bool = False

    @property
    def share(self) -> float:
        """Share of new sessions, in (0, 1)."""
        return self.steps[self.step]

    @property
    def at_last_step(self) -> bool:
        """True when nothing is left but to promote."""
        return self.step == len(self.steps) - 1


@dataclass(frozen=True, kw_only=True)
class Serving:
    """A version on an engine (a name of the stack, such as `inference-0`)."""

    version: str
    engine: str


@dataclass(frozen=True, kw_only=True)
class ReleaseState:
    """One component of one model.

    `lineage` are the versions that were live, oldest first, the last is live.

    `draining` is the version before the live one while its sessions may still run on their engine.
    """

    model: str = ""
    tenants: tuple[str, ...] = ()
    evidence_ttl_s: int = 0
    live: Serving | None = None
    lineage: tuple[str, ...] = ()
    draining: Serving | None = None
    canary: Canary | None = None
    versions: Mapping[str, Version] = field(default_factory=lambda: MappingProxyType({}))
    number: int = 0
    """How many events have been folded."""


def evolve(line: ReleaseState, body: Body) -> ReleaseState:
    """The state after one more event."""
    line = replace(line, number=line.number + 1)
    match body:
        case Bootstrapped():
            line = replace(
                line,
                model=body.model,
                tenants=body.tenants,
                evidence_ttl_s=body.evidence_ttl_s,
                live=Serving(version=body.version, engine=body.engine),
                lineage=(body.version,),
            )
            version = Version(
                name=body.version, weights_sha256=body.weights_sha256, stage=ReleaseStage.LIVE
            )
            return _with(line, version)
        case CandidateRegistered():
            # The draining sessions' engine is the one that the newcomer will be loaded into.
            version = Version(
                name=body.version, weights_sha256=body.weights_sha256, stage=ReleaseStage.REGISTERED
            )
            return _with(replace(line, draining=None), version)
        case GateRecorded():
            known = line.versions[body.version]
            return _with(line, replace(known, gates=(*known.gates, body)))
        case CandidateRejected():
            return _staged(line, body.version, ReleaseStage.REJECTED)
        case CanaryStarted():
            canary = Canary(
                version=body.version,
                engine=body.engine,
                steps=body.steps,
                step=0,
                salt=body.salt,
                policy=body.policy,
            )
            return _staged(
                replace(line, canary=canary, draining=None), body.version, ReleaseStage.CANARY
            )
        case CanaryObserved():
            return replace(line, canary=replace(_canary(line), passed=body.verdict is Verdict.PASS))
        case CanaryPaused():
            return _staged(line, body.version, ReleaseStage.PAUSED)
        case CanaryResumed():
            return _staged(line, body.version, ReleaseStage.CANARY)
        case CanaryShareRaised():
            canary = _canary(line)
            return replace(line, canary=replace(canary, step=canary.step + 1, passed=False))
        case CanaryRolledBack():
            return _staged(replace(line, canary=None), body.version, ReleaseStage.ROLLED_BACK)
        case Promoted():
            line = replace(
                line,
                canary=None,
                draining=line.live,
                live=Serving(version=body.version, engine=body.engine),
                lineage=(*line.lineage, body.version),
            )
            return _staged(
                _staged(line, body.superseded, ReleaseStage.SUPERSEDED),
                body.version,
                ReleaseStage.LIVE,
            )
        case LiveRolledBack():
            line = replace(
                line,
                draining=None,
                live=Serving(version=body.to, engine=body.engine),
                lineage=line.lineage[:-1],
            )
            return _staged(
                _staged(line, body.version, ReleaseStage.ROLLED_BACK), body.to, ReleaseStage.LIVE
            )
        case _:
            assert_never(body)


def fold(bodies: Iterable[Body]) -> ReleaseState:
    """The state after a history."""
    return reduce(evolve, bodies, ReleaseState())


def _with(line: ReleaseState, version: Version) -> ReleaseState:
    return replace(line, versions=MappingProxyType({**line.versions, version.name: version}))


def _staged(line: ReleaseState, name: str, stage: ReleaseStage) -> ReleaseState:
    return _with(line, replace(line.versions[name], stage=stage))


def _canary(line: ReleaseState) -> Canary:
    if line.canary is None:
        raise ValueError("the history holds a canary's event without a canary")
    return line.canary
