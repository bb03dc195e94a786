"""The summary on the terminal."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from atdp.stack import build_table
from order_desk.candidates import Candidate
from order_desk.settings import MODEL, WITHDRAWN
from order_desk.summary import Summary

_VERDICT_STYLES = {"PASS": "green", "FAIL": "red"}
_LEAST_SHOWN_BYTES = 5e7
"""Processes with less memory than this are left out of the line about memory."""


def print_summary(summary: Summary, console: Console) -> None:
    """Print the results that a person wants to know."""
    console.print()
    console.rule("[bold]what happened")
    _print_success(summary, console)
    console.print(_candidates_table(summary.candidates))
    console.print(_versions_table(summary.evidence.by_tenant_and_version))
    _print_governance(summary, console)
    _print_lineage(summary, console)
    _print_events(summary, console)
    _print_costs(summary, console)
    for promise, kept in summary.promises.items():
        style = "green" if kept else "bold red"
        console.print(Text(f"  {'yes' if kept else 'NO '}  {promise}", style=style))


def _print_success(summary: Summary, console: Console) -> None:
    before, after = summary.before, summary.after
    times = f"{after.value / before.value:.1f} times; " if after.value and before.value else ""
    console.print(
        f"\nSuccess on fresh tasks: [bold]{before.shown}[/] before, "
        f"[bold green]{after.shown}[/] after "
        f"({times}{before.sessions} and {after.sessions} tasks never seen). "
        f"The clerks who wrote the logs: {summary.logged_success:.1%}.\n"
    )


def _print_governance(summary: Summary, console: Console) -> None:
    evidence = summary.evidence
    findings = ", ".join(f"{entity} {count}" for entity, count in evidence.findings.items())
    console.print(f"[bold]Governance[/] found and replaced: {findings}")
    quarantined = ", ".join(
        f"{row['records']} x {row['reason']} ({row['tenant']})" for row in evidence.quarantine
    )
    console.print(f"[bold]Quarantined[/]: {quarantined}")


def _print_lineage(summary: Summary, console: Console) -> None:
    promoted = ", promoted" if summary.promoted == summary.live else "; nothing was promoted"
    console.print(
        f"[bold]Live[/] is {MODEL} {summary.live}{promoted}. Its weights come from:",
        highlight=False,
    )
    for ancestor in summary.evidence.lineage:
        snapshot = ancestor.snapshots.get("events", "-")
        console.print(
            f"  {MODEL} {ancestor.version} ({ancestor.kind}, {ancestor.trajectories} trajectories, "
            f"events snapshot {snapshot}, policy {', '.join(ancestor.policies)}, "
            f"weights {ancestor.weights_sha256[:12]})",
            highlight=False,
        )


def _print_events(summary: Summary, console: Console) -> None:
    evidence, accounting = summary.evidence, summary.evidence.accounting
    console.print(
        f"[bold]Events[/]: {accounting.events_emitted:,} emitted = "
        f"{accounting.events_landed:,} landed + {accounting.quarantined} quarantined + "
        f"{accounting.dropped_by_policy} dropped by policy; "
        f"{accounting.duplicates} duplicates, {accounting.lost} lost, "
        f"{accounting.surplus} surplus, {accounting.contradictory} with several results. "
        f"{evidence.leaks.raw_values_left} of {evidence.leaks.values_planted} raw values left. "
        f"{evidence.withdrawn_rows_trained} of {evidence.trajectories_trained:,} trained "
        f"trajectories belong to {WITHDRAWN}."
    )


def _print_costs(summary: Summary, console: Console) -> None:
    sizes = sorted(summary.at_peak.items(), key=lambda item: -item[1])
    shown = [f"{name} {size / 1e9:.2f}" for name, size in sizes if size > _LEAST_SHOWN_BYTES]
    console.print(
        f"[bold]Time[/] {summary.wall_seconds / 60:.1f} minutes. "
        f"[bold]Memory[/] at its peak {summary.peak_bytes / 1e9:.2f} GB ({', '.join(shown)})."
    )


def _candidates_table(candidates: Sequence[Candidate]) -> Table:
    rows = [_candidate_row(candidate) for candidate in candidates]
    columns = [
        "candidate",
        "from",
        "gate",
        "predicted by replay",
        "uplift, points",
        "measured in the canary",
        "uplift measured",
        "shown",
        "outcome",
    ]
    return build_table(rows, columns, title="Candidates")


def _candidate_row(candidate: Candidate) -> dict[str, object]:
    verdict = candidate.verdict
    row: dict[str, object] = {
        "candidate": candidate.version
        + (" (bad on purpose)" if candidate.deliberately_bad else ""),
        "from": candidate.parent,
        "gate": Text(verdict, style=_VERDICT_STYLES.get(verdict, "yellow")),
    }
    prediction, canary = candidate.prediction, candidate.canary
    if prediction is not None:
        row["predicted by replay"] = (
            f"{prediction.estimate:.1%} [{prediction.lower:.1%}, {prediction.upper:.1%}]"
        )
        row["uplift, points"] = prediction.uplift.shown
    if canary is not None:
        measured = f"{canary.candidate.shown} of {canary.candidate.sessions}"
        row["measured in the canary"] = f"{measured} (live {canary.live.shown})"
        row["uplift measured"] = canary.uplift.shown if canary.uplift else ""
        row["shown"] = canary.shown
        row["outcome"] = canary.outcome
    else:
        row["outcome"] = "rejected" if verdict == "FAIL" else "not released"
    return row


def _versions_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    shown = [
        {
            "tenant": row["tenant"],
            "version": row["version"],
            "sessions": row["sessions"],
            "success": _number(row["success"], ".1%"),
            "latency, median ms": _number(row["median_latency_ms"], ".0f"),
            "cost, millionths of $ a session": _number(row["cost_micro_usd"], ".1f"),
        }
        for row in rows
    ]
    columns = [
        "tenant",
        "version",
        "sessions",
        "success",
        "latency, median ms",
        "cost, millionths of $ a session",
    ]
    return build_table(shown, columns, title="By tenant and weight version (SQL)")


def _number(value: float | None, form: str) -> str:
    """Return a number of SQL as text; empty where there was no value to average."""
    return "" if value is None else format(value, form)
