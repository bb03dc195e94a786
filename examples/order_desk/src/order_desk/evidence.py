"""The proof at the end: what was counted independently, what was searched, what SQL answers, where the weights come from."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from atdp.control import describe_decision
from atdp.trainer import TrajectoryKey
from order_desk.customers import Planted
from order_desk.event_log_count import count_log
from order_desk.figures import BY_TENANT_AND_VERSION, ELIGIBILITY, QUARANTINE, THROUGHPUT, Rows, ask
from order_desk.lake_files import landed_ids
from order_desk.leaks import LeakReport, search_home
from order_desk.ledger import Ledger, balance
from order_desk.loop import Loop
from order_desk.platform import Platform
from order_desk.screen import Screen
from order_desk.settings import CONSENTING
from order_desk.tally import Tally
from order_desk.training import lineage, published_versions


@dataclass(frozen=True, kw_only=True)
class Ancestor:
    """One version in the lineage of the live weights."""

    version: str
    kind: str
    parent: str | None
    trajectories: int
    snapshots: dict[str, int]
    policies: tuple[str, ...]
    weights_sha256: str


@dataclass(frozen=True, kw_only=True)
class Decision:
    """One decision of the release line, as its story tells it."""

    number: int
    when: str
    what: str
    evidence: str


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Everything that the summary rests on beside the loop's own record."""

    ledger: Ledger
    emitted_by_channel: dict[str, int]
    emitted_by_tenant: dict[str, int]
    leaks: LeakReport
    findings: dict[str, int]
    """Entity → occurrences that governance replaced."""
    withdrawn_rows_trained: int
    """Trajectories, once per version trained on them, that the consenting tenant's agents do not
    know as theirs."""
    trajectories_trained: int
    """Distinct trajectories that any version, rejected ones too, was trained on."""
    by_tenant_and_version: Rows
    quarantine: Rows
    ineligible: Rows
    throughput: Rows
    lineage: tuple[Ancestor, ...]
    story: tuple[Decision, ...]


def collect(platform: Platform, loop: Loop, planted: Sequence[Planted], screen: Screen) -> Evidence:
    """Count, search and ask, once everything has landed."""
    platform.wait_until_landed()
    log = count_log(platform.kafka)
    ledger = balance(platform.tally.total, platform.tally.known_ids, log, landed_ids(platform.lake))
    screen.note(
        f"emitted {ledger.events_emitted:,} = landed {ledger.events_landed:,} + quarantined {ledger.quarantined} "
        f"+ dropped by policy {ledger.dropped_by_policy}; duplicates {ledger.duplicates}, lost {ledger.lost}, "
        f"surplus {ledger.surplus}, with several fates {ledger.contradictory}",
        style="green" if ledger.even else "red",
    )
    leaks = search_home(platform.home, platform.kafka, platform.lake, planted)
    searched = sum(leaks.bytes_searched.values())
    screen.note(
        f"{leaks.values_planted} raw values planted, {leaks.raw_values_left} left in {searched / 1e6:.0f} MB behind the gate",
        style="red" if leaks.raw_values_left else "green",
    )
    findings: dict[str, int] = {}
    for (entity, _), count in log.findings.items():
        findings[entity] = findings.get(entity, 0) + count
    chain = _lineage(platform, loop.live)
    trained = [key for version in published_versions(platform.home) for key in version.trained_on]
    return Evidence(
        ledger=ledger,
        emitted_by_channel=dict(platform.tally.by_channel()),
        emitted_by_tenant=dict(platform.tally.by_tenant()),
        leaks=leaks,
        findings=dict(sorted(findings.items(), key=lambda item: -item[1])),
        withdrawn_rows_trained=sum(not_consenting(key, platform.tally) for key in trained),
        trajectories_trained=len(set(trained)),
        by_tenant_and_version=ask(platform.lake, BY_TENANT_AND_VERSION),
        quarantine=ask(platform.lake, QUARANTINE),
        ineligible=ask(platform.lake, ELIGIBILITY),
        throughput=ask(platform.lake, THROUGHPUT),
        lineage=chain,
        story=tuple(
            Decision(number=told.number, when=told.when, what=told.what, evidence=told.evidence)
            for told in map(describe_decision, platform.flow.history())
        ),
    )


def not_consenting(key: TrajectoryKey, tally: Tally) -> bool:
    """Whether a trajectory that was trained on is not, by the agents' own books too, the consenting tenant's."""
    return (key.tenant, tally.tenant_of(key.trajectory)) != (CONSENTING, CONSENTING)


def _lineage(platform: Platform, version: str) -> tuple[Ancestor, ...]:
    return tuple(_ancestor(published.manifest) for published in lineage(platform.home, version))


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
