"""The decisions of a release line, as immutable values with one JSON form.

A release line is the history of one component (weights) of one model. Events are facts: they are
never changed, a correction is another event. Each carries its evidence: hashes of reports and
weights, dataset and snapshots, policy versions. `SCHEMA` is the version of the forms below; a later
version reads earlier ones through upcasters.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias, get_args

from pydantic import TypeAdapter, ValidationError

from atdp.control.errors import StoreError
from atdp.control.judge import CanaryPolicy
from atdp.replay import Verdict

SCHEMA = 1
"""Version of the event forms in this module."""


@dataclass(frozen=True, kw_only=True)
class Bootstrapped:
    """The first version went live without a gate: an explicit act of a person, once per line."""

    model: str
    tenants: tuple[str, ...]
    version: str
    weights_sha256: str
    engine: str
    evidence_ttl_s: int
    reason: str


@dataclass(frozen=True, kw_only=True)
class CandidateRegistered:
    """A version exists and may be evaluated; where it came from."""

    version: str
    weights_sha256: str
    parent: str | None
    run_id: str | None
    snapshots: Mapping[str, int]
    policy_versions: tuple[str, ...]
    trajectories_used: int | None


@dataclass(frozen=True, kw_only=True)
class GateRecorded:
    """A replay evaluation of exactly these weights against the version that was live."""

    version: str
    weights_sha256: str
    baseline: str
    verdict: Verdict
    reason_codes: tuple[str, ...]
    report_sha256: str
    run_id: str
    dataset: str
    snapshots: Mapping[str, int]
    policy_versions: tuple[str, ...]
    tenants: tuple[str, ...]
    predicted_reward: float | None
    decided_at: datetime


@dataclass(frozen=True, kw_only=True)
class CandidateRejected:
    """The candidate will never be live; a new version has to be made."""

    version: str
    weights_sha256: str
    reason_codes: tuple[str, ...]
    report_sha256: str | None


@dataclass(frozen=True, kw_only=True)
class CanaryStarted:
    """A share of new sessions goes to the candidate.

    `steps` are the shares to come, the first is in force.
    """

    version: str
    weights_sha256: str
    engine: str
    steps: tuple[float, ...]
    salt: str
    policy: CanaryPolicy
    reports: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class CanaryObserved:
    """A look at the canary that decided something at the current share."""

    version: str
    share: float
    verdict: Verdict
    reason_codes: tuple[str, ...]
    canary_sessions: int
    canary_judged: int
    canary_successes: int
    stable_sessions: int
    stable_judged: int
    stable_successes: int
    difference: float | None
    lower: float | None
    upper: float | None
    snapshots: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class CanaryPaused:
    """Evidence cannot decide; the share stays and a person has to resume or roll back."""

    version: str
    reason_codes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class CanaryResumed:
    """A person says to go on; the comparison starts anew."""

    version: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class CanaryShareRaised:
    """The next step of the plan; the comparison starts anew."""

    version: str
    share: float


@dataclass(frozen=True, kw_only=True)
class CanaryRolledBack:
    """All new sessions go to the live version again."""

    version: str
    weights_sha256: str
    to: str
    reason_codes: tuple[str, ...]
    reason: str


@dataclass(frozen=True, kw_only=True)
class Promoted:
    """The candidate is live; sessions of the version before it end where they began."""

    version: str
    weights_sha256: str
    engine: str
    superseded: str
    reports: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class LiveRolledBack:
    """The version that was live before is live again."""

    version: str
    weights_sha256: str
    to: str
    to_weights_sha256: str
    engine: str
    reason: str


Body: TypeAlias = (
    Bootstrapped
    | CandidateRegistered
    | GateRecorded
    | CandidateRejected
    | CanaryStarted
    | CanaryObserved
    | CanaryPaused
    | CanaryResumed
    | CanaryShareRaised
    | CanaryRolledBack
    | Promoted
    | LiveRolledBack
)

_TYPES: dict[str, type[Body]] = {t.__name__: t for t in get_args(Body)}
_ADAPTERS: dict[str, TypeAdapter[Body]] = {name: TypeAdapter(t) for name, t in _TYPES.items()}


@dataclass(frozen=True, kw_only=True)
class Decided:
    """One event in its place: `number` counts from 1 without gaps in its line, `occurred_at` is aware UTC."""

    event_id: str
    line: str
    number: int
    occurred_at: datetime
    actor: str
    body: Body

    @property
    def type(self) -> str:
        """Name of the body's type."""
        return type(self.body).__name__


def body_to_json(body: Body) -> dict[str, Any]:
    """JSON form of a body."""
    name = type(body).__name__
    return dict(_ADAPTERS[name].dump_python(body, mode="json"))


def body_from_json(name: str, fields: Mapping[str, Any], *, schema: int) -> Body:
    """The body of that type. Raises `StoreError` for a form that this version does not know."""
    if schema != SCHEMA or name not in _ADAPTERS:
        raise StoreError(
            f"the event store holds a {name!r} of schema {schema}, which this version of atdp does not know; use the"
            " version that wrote it, or a later one"
        )
    try:
        return _ADAPTERS[name].validate_python(dict(fields))
    except ValidationError as error:
        raise StoreError(f"a stored {name} is not of its form: {error}") from error
