"""The demo's result as one value: written as `summary.json`, shown on the terminal, drawn in `report.html`."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from rich.console import Console
from rich.table import Table
from rich.text import Text

from order_desk.evidence import Evidence
from order_desk.rate import Rate, at_least
from order_desk.rounds import Candidate
from order_desk.settings import MODEL, WITHDRAWN, DemoSettings


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What the running stack showed."""

    logged_success: float
    """Share of the clerks' conversations that ended right."""
    before: Rate
    after: Rate
    traffic: Mapping[str, Rate]
    """Phase → success of all its sessions, in order."""
    candidates: Sequence[Candidate]
    failures: Sequence[str]
    evidence: Evidence


@dataclass(frozen=True, kw_only=True)
class Summary(Outcome):
    """The outcome, and what it took."""

    home: Path
    settings: DemoSettings
    peak_bytes: int
    at_peak: Mapping[str, int]
    wall_seconds: float
    step_seconds: Mapping[str, float]

    @classmethod
    def of(cls, outcome: Outcome, **fields: Any) -> Self:
        """The summary of an outcome; `fields` are the others."""
        return cls(
            **{name: getattr(outcome, name) for name in outcome.__dataclass_fields__}, **fields
        )

    @property
    def live(self) -> str:
        """The version that is live at the end."""
        return self.evidence.lineage[0].version

    @property
    def promoted(self) -> str | None:
        """The version promoted last; None when no canary was."""
        promoted = [
            c.version for c in self.candidates if c.canary and c.canary.outcome == "promoted"
        ]
        return promoted[-1] if promoted else None

    @property
    def promises(self) -> dict[str, bool]:
        """What the demo is there to show, each held or broken."""
        ledger = self.evidence.ledger
        return {
            "success at least doubled on fresh tasks": at_least(self.after, 2, self.before),
            "every emitted event has exactly one fate": ledger.even,
            "no raw value is left behind the gate": self.evidence.leaks.raw_values_left == 0,
            f"nothing of {WITHDRAWN} was trained on": self.evidence.withdrawn_rows_trained == 0,
            "the gate caught the bad candidate": any(
                c.deliberately_bad and c.verdict == "FAIL" for c in self.candidates
            ),
            "better weights were promoted": self.promoted is not None,
        }

    def to_json(self) -> dict[str, Any]:
        """JSON form; figures that do not exist are null."""
        evidence = self.evidence
        return {
            "success_before": self.before.value,
            "success_after": self.after.value,
            "events_emitted": evidence.ledger.events_emitted,
            "events_landed": evidence.ledger.events_landed,
            "quarantined": evidence.ledger.quarantined,
            "dropped_by_policy": evidence.ledger.dropped_by_policy,
            "duplicates": evidence.ledger.duplicates,
            "lost": evidence.ledger.lost,
            "surplus": evidence.ledger.surplus,
            "contradictory": evidence.ledger.contradictory,
            "raw_records": evidence.ledger.raw_records,
            "withdrawn_rows_trained": evidence.withdrawn_rows_trained,
            "trajectories_trained": evidence.trajectories_trained,
            "raw_values_left": evidence.leaks.raw_values_left,
            "rounds": [candidate.to_json() for candidate in self.candidates],
            "wall_seconds": round(self.wall_seconds, 1),
            "promises": self.promises,
            "model": MODEL,
            "promoted": self.promoted,
            "live": self.live,
            "before": self.before.to_json(),
            "after": self.after.to_json(),
            "logged_success": self.logged_success,
            "traffic": {phase: rate.to_json() for phase, rate in self.traffic.items()},
            "failed_sessions": list(self.failures),
            "emitted_by_channel": evidence.emitted_by_channel,
            "emitted_by_tenant": evidence.emitted_by_tenant,
            "leak_search": asdict(evidence.leaks),
            "findings": evidence.findings,
            "quarantine": evidence.quarantine,
            "not_trainable": evidence.ineligible,
            "by_tenant_and_version": evidence.by_tenant_and_version,
            "lineage": [asdict(ancestor) for ancestor in evidence.lineage],
            "release_history": [asdict(decision) for decision in evidence.story],
            "peak_memory_bytes": self.peak_bytes,
            "memory_at_peak_bytes": dict(self.at_peak),
            "step_seconds": {
                title: round(seconds, 1) for title, seconds in self.step_seconds.items()
            },
            "seed": self.settings.seed,
            "home": str(self.home),
        }

    def write(self, file: Path) -> None:
        """Write `summary.json`."""
        file.write_text(
            json.dumps(self.to_json(), indent=1, default=str, allow_nan=False) + "\n",
            encoding="utf-8",
        )


def show(summary: Summary, console: Console) -> None:
    """Print what a person wants to know."""
    evidence, before, after = summary.evidence, summary.before, summary.after
    times = f"{after.value / before.value:.1f} times; " if after.value and before.value else ""
    console.print()
    console.rule("[bold]what happened")
    console.print(
        f"\nSuccess on fresh tasks: [bold]{before.shown}[/] before, [bold green]{after.shown}[/] after "
        f"({times}{before.sessions} and {after.sessions} tasks never seen). "
        f"The clerks who wrote the logs: {summary.logged_success:.1%}.\n"
    )
    console.print(_rounds(summary.candidates))
    console.print(_versions(evidence.by_tenant_and_version))
    found = ", ".join(f"{entity} {count}" for entity, count in evidence.findings.items())
    console.print(f"[bold]Governance[/] found and replaced: {found}")
    refused = ", ".join(
        f"{row['records']} x {row['reason']} ({row['tenant']})" for row in evidence.quarantine
    )
    console.print(f"[bold]Quarantined[/]: {refused}")
    console.print(
        f"[bold]Live[/] is {MODEL} {summary.live}"
        + (", promoted" if summary.promoted == summary.live else "; nothing was promoted")
        + ". Its weights come from:",
        highlight=False,
    )
    for ancestor in evidence.lineage:
        snapshot = ancestor.snapshots.get("events", "-")
        console.print(
            f"  {MODEL} {ancestor.version} ({ancestor.kind}, {ancestor.trajectories} trajectories, events snapshot {snapshot}, "
            f"policy {', '.join(ancestor.policies)}, weights {ancestor.weights_sha256[:12]})",
            highlight=False,
        )
    ledger = evidence.ledger
    console.print(
        f"[bold]Events[/]: {ledger.events_emitted:,} emitted = {ledger.events_landed:,} landed + {ledger.quarantined} quarantined + "
        f"{ledger.dropped_by_policy} dropped by policy; {ledger.duplicates} duplicates, {ledger.lost} lost, "
        f"{ledger.surplus} surplus, {ledger.contradictory} with several fates. "
        f"{evidence.leaks.raw_values_left} of {evidence.leaks.values_planted} raw values left. "
        f"{evidence.withdrawn_rows_trained} of {evidence.trajectories_trained:,} trained trajectories are {WITHDRAWN}'s."
    )
    at_peak = ", ".join(
        f"{name} {size / 1e9:.2f}"
        for name, size in sorted(summary.at_peak.items(), key=lambda item: -item[1])
        if size > 5e7
    )
    console.print(
        f"[bold]Time[/] {summary.wall_seconds / 60:.1f} minutes. [bold]Memory[/] at its peak {summary.peak_bytes / 1e9:.2f} GB ({at_peak})."
    )
    for promise, held in summary.promises.items():
        console.print(
            Text(f"  {'yes' if held else 'NO '}  {promise}", style="green" if held else "bold red")
        )


def _rounds(candidates: Sequence[Candidate]) -> Table:
    table = Table(title="Candidates", title_justify="left", header_style="bold")
    for heading in (
        "round",
        "candidate",
        "from",
        "predicted by replay",
        "gate",
        "canary",
        "measured",
        "outcome",
    ):
        table.add_column(heading)
    for each in candidates:
        found, canary = each.prediction, each.canary
        table.add_row(
            str(each.round),
            each.version + (" (bad on purpose)" if each.deliberately_bad else ""),
            each.parent,
            "" if found is None else f"{found.estimate:.1%} [{found.lower:.1%}, {found.upper:.1%}]",
            Text(each.verdict, style={"PASS": "green", "FAIL": "red"}.get(each.verdict, "yellow")),
            "" if canary is None else f"{canary.verdict}, {canary.share:.0%} of sessions",
            ""
            if canary is None
            else f"{canary.candidate.shown} of {canary.candidate.sessions} (live {canary.live.shown})",
            "rejected"
            if canary is None and each.verdict == "FAIL"
            else ""
            if canary is None
            else canary.outcome,
        )
    return table


def _versions(rows: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(
        title="By tenant and weight version (SQL)", title_justify="left", header_style="bold"
    )
    for heading in (
        "tenant",
        "version",
        "sessions",
        "success",
        "latency, median ms",
        "cost, millionths of $ a session",
    ):
        table.add_column(heading, justify="left" if heading in {"tenant", "version"} else "right")
    for row in rows:
        table.add_row(
            row["tenant"],
            row["version"],
            str(row["sessions"]),
            _figure(row["success"], ".1%"),
            _figure(row["median_latency_ms"], ".0f"),
            _figure(row["cost_micro_usd"], ".1f"),
        )
    return table


def _figure(value: float | None, form: str) -> str:
    """A figure of SQL, which knows none where there was nothing to average."""
    return "" if value is None else format(value, form)
