"""Reading of measured runs from the lake: through the governed reader, with the purpose `replay`.

The governed reader decides which trajectories may be used. Their values and violations are then
read by SQL from the same snapshots, on a connection for the same purpose. Everything is read for
each tenant by itself.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from atdp.lakehouse import (
    ANY_PURPOSE,
    Connection,
    Lake,
    LakehouseError,
    ReadOptions,
    TableName,
    connect,
    governed_trajectories,
    load_dataset,
)
from atdp.replay.errors import ReplayDataError
from atdp.replay.gates.gate_settings import GateSettings
from atdp.replay.gates.measured_runs import MeasuredArm, MeasuredRun, RunKey, TenantRuns
from atdp.replay.gates.metric_values import metric_values, no_values, violated_invariants
from atdp.replay.gates.selections import selection_condition

_OPTIONS = ReadOptions(with_messages=False, with_content=False)
_INCOMPLETE = frozenset(
    {"no_end", "not_governed", "not_settled", "events_missing", "tool_result_missing"}
)
"""Replay reasons of trajectories of which events may be missing (see the view `trajectories`)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GateRequest:
    """The trajectories to compare."""

    candidate: str
    """Selection of trajectories (see `atdp.replay.gates.selections`)."""
    baseline: str
    dataset: str | None = None
    """Pinned dataset; None: the newest snapshots."""
    where: str | None = None
    """Further SQL condition over `trajectories`, for both."""
    tenants: tuple[str, ...] = ()
    """Tenants to judge; empty: those of the settings, else every tenant with such trajectories."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PinnedRuns:
    """The measured runs of all tenants, and the snapshots that they were read from."""

    tenants: Sequence[TenantRuns]
    snapshots: Mapping[TableName, int]


def read_runs(lake: Lake, request: GateRequest, settings: GateSettings) -> PinnedRuns:
    """Return the runs of each tenant that governance permits for replay.

    Raises:
        ReplayDataError: a condition is wrong, the dataset cannot be read, an arm has no trajectory,
            or one trajectory is in both.
    """
    try:
        reading = _reading(lake, request)
        tenants = request.tenants or settings.tenants or reading.tenants()
        if not tenants:
            raise ReplayDataError(
                f"no trajectory is in {request.candidate} or {request.baseline}; "
                "the column weight_version of `trajectories` has the versions of weights"
            )
        runs = [reading.runs(tenant, settings) for tenant in sorted(set(tenants))]
    except LakehouseError as error:
        raise ReplayDataError(str(error)) from error
    for name in ("candidate", "baseline"):
        if not any(getattr(each, name).selected for each in runs):
            raise ReplayDataError(f"no trajectory is in the {name}, {getattr(request, name)}")
    return PinnedRuns(tenants=runs, snapshots=reading.snapshots)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Reading:
    """The conditions of both arms over pinned snapshots."""

    lake: Lake
    snapshots: Mapping[TableName, int]
    tenant: str | None
    """The tenant of the dataset; None: all."""
    candidate: str
    baseline: str

    def tenants(self) -> tuple[str, ...]:
        """Return the tenants of all selected trajectories, permitted or not."""
        with connect(
            lake=self.lake, tenant=self.tenant, purpose=ANY_PURPOSE, snapshots=self.snapshots
        ) as connection:
            rows = connection.all_rows(
                "SELECT DISTINCT tenant_id FROM trajectories "  # noqa: S608
                f"WHERE {self.candidate} OR {self.baseline}"
            )
        return tuple(row["tenant_id"] for row in rows)

    def runs(self, tenant: str, settings: GateSettings) -> TenantRuns:
        """Return the runs of one tenant."""
        if self.tenant not in (None, tenant):
            raise ReplayDataError(f"the dataset is of the tenant {self.tenant}, not of {tenant}")
        with connect(
            lake=self.lake, tenant=tenant, purpose="replay", snapshots=self.snapshots
        ) as connection:
            violations = violated_invariants(connection, settings)
            arms = [
                self._arm(connection, condition, settings, violations)
                for condition in (self.candidate, self.baseline)
            ]
        if both := {run.key for run in arms[0].runs} & {run.key for run in arms[1].runs}:
            raise ReplayDataError(
                f"{len(both)} trajectories of {tenant} are of candidate and baseline, "
                f"{min(both)[0]} among them; select different ones"
            )
        return TenantRuns(tenant=tenant, candidate=arms[0], baseline=arms[1])

    def _arm(
        self,
        connection: Connection,
        condition: str,
        settings: GateSettings,
        violations: Mapping[RunKey, frozenset[str]],
    ) -> MeasuredArm:
        values = metric_values(connection, settings, condition)
        missing = no_values(settings)
        permitted = governed_trajectories(
            self.lake,
            purpose="replay",
            tenant=connection.tenant,
            where=condition,
            snapshots=self.snapshots,
            options=_OPTIONS,
        )
        runs = []
        for record in permitted:
            key = (record.trajectory_id, record.attempt)
            ended = record.status != "open"
            runs.append(
                MeasuredRun(
                    trajectory_id=record.trajectory_id,
                    attempt=record.attempt,
                    task_id=record.task_id,
                    # A trajectory that goes on has no final value yet.
                    values=values.get(key, missing) if ended else missing,
                    violations=violations.get(key, frozenset()),
                    whole=ended and record.replay_reason not in _INCOMPLETE,
                )
            )
        runs.sort(key=lambda run: run.key)
        return MeasuredArm(runs=tuple(runs), refused=permitted.refused)


def _reading(lake: Lake, request: GateRequest) -> _Reading:
    conditions, tenant, snapshots = [], None, lake.snapshots()
    if request.dataset is not None:
        dataset = load_dataset(lake, request.dataset)
        conditions.append(dataset.where)
        tenant, snapshots = dataset.tenant, dict(dataset.snapshots)
    if request.where is not None:
        conditions.append(request.where)

    def condition(selection: str) -> str:
        parts = [selection_condition(selection), *(f"(\n{each}\n)" for each in conditions)]
        return f"({' AND '.join(parts)})"

    return _Reading(
        lake=lake,
        snapshots=snapshots,
        tenant=tenant,
        candidate=condition(request.candidate),
        baseline=condition(request.baseline),
    )
