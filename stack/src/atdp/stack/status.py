"""What `atdp status` shows, gathered from the supervisor's ledger, the broker, the lake and the services.

Every section stands alone: what cannot be read becomes a sentence under `problems` and leaves the
others untouched.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Literal, TypeVar

import httpx

from atdp.governance import GovernanceError
from atdp.lakehouse import LakehouseError
from atdp.runtime import Home, KafkaSettings, PlatformError
from atdp.stack.errors import StackError
from atdp.stack.flow import Lag, lag
from atdp.stack.kafka_log import KafkaLog
from atdp.stack.ledger import ServiceEntry, StackEntry
from atdp.stack.local import Stack
from atdp.stack.processes import ProcessId, own_resident_bytes, resident_bytes
from atdp.stack.readers import stages
from atdp.stack.restarts import describe_exit
from atdp.stack.services import WAITS_FOR_WEIGHTS

T = TypeVar("T")
State = Literal["healthy", "degraded", "not running"]
_EXIT_CODES: Mapping[State, int] = {"healthy": 0, "degraded": 1, "not running": 3}  # systemctl's
_EXPECTED = (StackError, PlatformError, GovernanceError, LakehouseError, OSError)


@dataclass(frozen=True, kw_only=True)
class ServiceStatus:
    """One service as it is now."""

    entry: ServiceEntry
    running: bool
    memory_bytes: int

    @property
    def well(self) -> bool:
        """Running and ready; a worker without weights on a fresh home counts as well."""
        ready = self.entry.phase == "ready" or (
            self.entry.name in WAITS_FOR_WEIGHTS and self.entry.phase == "starting"
        )
        return self.running and ready

    @property
    def _state(self) -> str:
        if self.entry.pid is not None and not self.running:
            return "gone"
        return "waiting" if self.well and self.entry.phase == "starting" else self.entry.phase

    def row(self) -> dict[str, object]:
        """For a table of people."""
        code = self.entry.last_exit_code
        return {
            "service": self.entry.name,
            "state": self._state,
            "pid": self.entry.pid,
            "port": self.entry.port,
            "restarts": self.entry.restarts,
            "last exit": describe_exit(code) if code is not None else None,
            "MB": round(self.memory_bytes / 1e6),
            "remark": self.entry.reason,
        }


@dataclass(frozen=True, kw_only=True)
class TableStatus:
    """One lake table: rows of its current snapshot (`snapshot` None: no snapshot yet)."""

    name: str
    rows: int
    snapshot: int | None

    def row(self) -> dict[str, object]:
        """For a table of people."""
        return {"table": self.name, "rows": self.rows, "snapshot": str(self.snapshot or "")}


@dataclass(frozen=True, kw_only=True)
class StackStatus:
    """The whole stack."""

    home: str
    state: State
    supervisor_pid: int | None
    supervisor_memory_bytes: int = 0
    endpoints: Mapping[str, str]
    services: tuple[ServiceStatus, ...]
    flow: tuple[Lag, ...] = ()
    tables: tuple[TableStatus, ...] = ()
    weights: Mapping[str, str | None] = field(default_factory=dict)
    policies: tuple[Mapping[str, object], ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """0 healthy, 1 degraded, 3 not running."""
        return _EXIT_CODES[self.state]

    @property
    def memory_bytes(self) -> int:
        """Resident memory of the supervisor and all services (shared pages counted in each)."""
        return self.supervisor_memory_bytes + sum(service.memory_bytes for service in self.services)

    def facts(self) -> list[tuple[str, str]]:
        """Single values for people."""
        return [
            *((f"weights {name}", version or "none yet") for name, version in self.weights.items()),
            *(
                (
                    f"policy {policy['id']}",
                    f"version {policy['version']} for tenants {policy['tenants']} ({policy['hash']})",
                )
                for policy in self.policies
            ),
            ("memory", f"{self.memory_bytes / 1e6:.0f} MB in all"),
            ("of which the supervisor", f"{self.supervisor_memory_bytes / 1e6:.0f} MB"),
            *(
                (f"{name} at", where)
                for name, where in self.endpoints.items()
                if name in {"gateway", "kafka"}
            ),
        ]

    def as_json(self) -> dict[str, object]:
        """For scripts."""
        return {
            "home": self.home,
            "state": self.state,
            "supervisor_pid": self.supervisor_pid,
            "endpoints": dict(self.endpoints),
            "services": {
                service.entry.name: {
                    **asdict(service.entry),
                    "running": service.running,
                    "well": service.well,
                    "memory_bytes": service.memory_bytes,
                }
                for service in self.services
            },
            "lag": {f"{flow.reader}:{flow.topic}": flow.waiting for flow in self.flow},
            "tables": {
                table.name: {"rows": table.rows, "snapshot": table.snapshot}
                for table in self.tables
            },
            "weights": dict(self.weights),
            "policies": [dict(policy) for policy in self.policies],
            "memory_bytes": self.memory_bytes,
            "problems": list(self.problems),
        }


def collect(stack: Stack) -> StackStatus:
    """Look at everything now; takes a second or two."""
    ledger = stack.ledger
    supervisor_pid, published = ledger.supervisor_pid(), ledger.read()
    services = (
        tuple(_service(entry) for entry in published.services) if published is not None else ()
    )
    if supervisor_pid is None:
        left = [service for service in services if service.running]
        problems = tuple(
            f"{s.entry.name} ({s.entry.pid}) was left by a killed supervisor; `atdp down` ends it"
            for s in left
        )
        return StackStatus(
            home=str(stack.home.root),
            state="not running",
            supervisor_pid=None,
            endpoints={},
            services=tuple(left),
            problems=problems,
        )
    problems_found: list[str] = []
    flow: tuple[Lag, ...] = _section(problems_found, "lag", lambda: _flow(stack), ())
    tables: tuple[TableStatus, ...] = _section(
        problems_found, "tables", lambda: _tables(stack.home), ()
    )
    policies: tuple[Mapping[str, object], ...] = _section(
        problems_found, "policies", lambda: _policies(stack.home), ()
    )
    endpoints: Mapping[str, str] = _section(problems_found, "endpoints", stack.home.endpoints, {})
    weights = {
        name: _weight_version(endpoints[name])
        for name in sorted(WAITS_FOR_WEIGHTS)
        if name in endpoints
    }
    return StackStatus(
        home=str(stack.home.root),
        state=judge(published, services, bool(problems_found)),
        supervisor_pid=supervisor_pid,
        supervisor_memory_bytes=own_resident_bytes(supervisor_pid),
        endpoints=endpoints,
        services=services,
        flow=flow,
        tables=tables,
        weights=weights,
        policies=policies,
        problems=tuple(problems_found),
    )


def judge(
    published: StackEntry | None, services: tuple[ServiceStatus, ...], problems: bool
) -> State:
    """Healthy when the stack came up, every service is well and everything could be read."""
    well = published is not None and published.up and all(service.well for service in services)
    return "healthy" if well and not problems else "degraded"


def _service(entry: ServiceEntry) -> ServiceStatus:
    running = (
        entry.pid is not None and ProcessId(pid=entry.pid, created=entry.created).find() is not None
    )
    memory = resident_bytes(entry.pid) if running and entry.pid is not None else 0
    return ServiceStatus(entry=entry, running=running, memory_bytes=memory)


def _section(problems: list[str], name: str, read: Callable[[], T], nothing: T) -> T:
    try:
        return read()
    except _EXPECTED as error:
        problems.append(f"{name}: {error}")
        return nothing


def _flow(stack: Stack) -> tuple[Lag, ...]:
    with KafkaLog(KafkaSettings.from_env(stack.home, stack.environ)) as log:
        return tuple(lag(log, reader) for stage in stages(stack.home, log) for reader in stage)


def _tables(home: Home) -> tuple[TableStatus, ...]:
    from atdp.lakehouse import open_lake

    lake = open_lake(home)
    found = []
    for name in lake.snapshots():
        snapshot = lake.table(name).current_snapshot()
        summary = snapshot.summary if snapshot is not None else None
        rows = (
            int(summary.additional_properties.get("total-records", "0"))
            if summary is not None
            else 0
        )
        found.append(
            TableStatus(
                name=name,
                rows=rows,
                snapshot=snapshot.snapshot_id if snapshot is not None else None,
            )
        )
    return tuple(found)


def _policies(home: Home) -> tuple[Mapping[str, object], ...]:
    from atdp.governance import PolicyDocument, parse_policy

    documents = [
        parse_policy(file.read_text(encoding="utf-8"), where=str(file))
        for file in sorted(home.policies.glob("*.y*ml"))
    ]
    return tuple(
        {
            "id": document.metadata.id,
            "version": document.metadata.version,
            "tenants": ",".join(document.applies_to.tenants),
            "hash": document.content_hash[:12],
        }
        for document in documents
        if isinstance(document, PolicyDocument)
    )


def _weight_version(url: str) -> str | None:
    try:
        answer = httpx.get(f"{url}/model_info", timeout=3.0, trust_env=False)
        return (
            str(answer.json()["weight_version"]) if answer.status_code == httpx.codes.OK else None
        )
    except (httpx.HTTPError, ValueError, KeyError):
        return None
