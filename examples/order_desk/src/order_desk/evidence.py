"""The evidence at the end: independent counts, the search for raw values, SQL, the lineage."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from atdp.control import Decided, describe_decision
from atdp.trainer import TrajectoryKey
from order_desk.customers import PlantedValue
from order_desk.demo_console import DemoConsole
from order_desk.demo_platform import DemoPlatform
from order_desk.emitted_events import EmittedEvents
from order_desk.event_accounting import EventAccounting, account_for_events
from order_desk.event_log_count import count_log
from order_desk.lake_files import landed_ids
from order_desk.lake_queries import (
    BY_TENANT_AND_VERSION,
    ELIGIBILITY,
    QUARANTINE,
    THROUGHPUT,
    Rows,
    query_lake,
)
from order_desk.leak_search import SEARCHED_PLACES, LeakReport, search_home
from order_desk.learning_loop import LearningLoop
from order_desk.settings import CONSENTING
from order_desk.training import lineage, published_versions

_COUNTS = 2
"""Steps of counting: the topics, and the lake's files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ancestor:
    """One version in the lineage of the live weights."""

    version: str
    kind: str
    parent: str | None
    trajectories: int
    snapshots: dict[str, int]
    policies: tuple[str, ...]
    weights_sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseDecision:
    """One decision of the release line, as text."""

    number: int
    when: str
    what: str
    evidence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Everything that the summary uses besides the results of the learning loop."""

    accounting: EventAccounting
    emitted_by_channel: dict[str, int]
    emitted_by_tenant: dict[str, int]
    leaks: LeakReport
    findings: dict[str, int]
    """Entity → occurrences that governance replaced."""
    withdrawn_rows_trained: int
    """Trajectories that the consenting tenant's agents do not know as theirs; each counts once per
    version that was trained on it."""
    trajectories_trained: int
    """Distinct trajectories that any version, rejected ones too, was trained on."""
    by_tenant_and_version: Rows
    quarantine: Rows
    ineligible: Rows
    throughput: Rows
    lineage: tuple[Ancestor, ...]
    release_history: tuple[ReleaseDecision, ...]


def collect_evidence(
    platform: DemoPlatform,
    loop: LearningLoop,
    planted: Sequence[PlantedValue],
    console: DemoConsole,
) -> Evidence:
    """Count events, search for raw values and query the lake, once everything has landed."""
    platform.wait_until_landed()
    with console.bar("topics counted, places searched", _COUNTS + SEARCHED_PLACES) as advance:
        log, emitted = count_log(platform.kafka), platform.emitted
        advance(1)
        accounting = account_for_events(
            emitted.total, emitted.known_ids, log, landed_ids(platform.lake)
        )
        advance(1)
        leaks = search_home(
            platform.home, platform.kafka, platform.lake, planted, lambda: advance(1)
        )
    _print_counts(accounting, leaks, console)
    replacements: Counter[str] = Counter()
    for (entity, _), count in log.findings.items():
        replacements[entity] += count
    ancestors = lineage(platform.home, loop.live)
    trained = [key for version in published_versions(platform.home) for key in version.trained_on]
    return Evidence(
        accounting=accounting,
        emitted_by_channel=dict(emitted.by_channel()),
        emitted_by_tenant=dict(emitted.by_tenant()),
        leaks=leaks,
        findings=dict(replacements.most_common()),
        withdrawn_rows_trained=sum(is_without_consent(key, emitted) for key in trained),
        trajectories_trained=len(set(trained)),
        by_tenant_and_version=query_lake(platform.lake, BY_TENANT_AND_VERSION),
        quarantine=query_lake(platform.lake, QUARANTINE),
        ineligible=query_lake(platform.lake, ELIGIBILITY),
        throughput=query_lake(platform.lake, THROUGHPUT),
        lineage=tuple(_ancestor(published.manifest) for published in ancestors),
        release_history=tuple(map(_release_decision, platform.flow.history())),
    )


def is_without_consent(key: TrajectoryKey, emitted: EmittedEvents) -> bool:
    """Return True unless the lake and the agents both say that the tenant has consented."""
    return (key.tenant, emitted.tenant_of(key.trajectory)) != (CONSENTING, CONSENTING)


def _print_counts(accounting: EventAccounting, leaks: LeakReport, console: DemoConsole) -> None:
    console.note(
        f"emitted {accounting.events_emitted:,} = landed {accounting.events_landed:,} "
        f"+ quarantined {accounting.quarantined} "
        f"+ dropped by policy {accounting.dropped_by_policy}; "
        f"duplicates {accounting.duplicates}, lost {accounting.lost}, "
        f"surplus {accounting.surplus}, with several results {accounting.contradictory}",
        style="green" if accounting.is_balanced else "red",
    )
    searched = sum(leaks.bytes_searched.values())
    console.note(
        f"{leaks.values_planted} raw values planted, {leaks.raw_values_left} left in "
        f"{searched / 1e6:.0f} MB behind governance",
        style="red" if leaks.raw_values_left else "green",
    )


def _release_decision(decided: Decided) -> ReleaseDecision:
    text = describe_decision(decided)
    return ReleaseDecision(
        number=text.number, when=text.when, what=text.what, evidence=text.evidence
    )


def _ancestor(manifest: Any) -> Ancestor:
    return Ancestor(
        version=manifest["version"],
        kind=manifest["kind"],
        parent=manifest["parent"],
        trajectories=manifest["trajectories_used"],
        snapshots={str(table): int(snapshot) for table, snapshot in manifest["snapshots"].items()},
        policies=tuple(manifest["policy_versions"]),
        weights_sha256=manifest["sha256"]["model.safetensors"],
    )
