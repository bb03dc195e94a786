"""Tells a release line's history: one sentence and the evidence for each decision."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import assert_never

from atdp.control.events import (
    SCHEMA,
    Bootstrapped,
    CanaryObserved,
    CanaryPaused,
    CanaryResumed,
    CanaryRolledBack,
    CanaryShareRaised,
    CanaryStarted,
    CandidateRegistered,
    CandidateRejected,
    Decided,
    GateRecorded,
    LiveRolledBack,
    Promoted,
    body_to_json,
)


@dataclass(frozen=True, kw_only=True)
class DecisionText:
    """One decision for a reader."""

    number: int
    when: str
    actor: str
    what: str
    evidence: str


def describe_decision(decided: Decided) -> DecisionText:
    """One decision as text."""
    what, evidence = _told(decided)
    return DecisionText(
        number=decided.number,
        when=decided.occurred_at.strftime("%Y-%m-%d %H:%M:%SZ"),
        actor=decided.actor,
        what=what,
        evidence=evidence,
    )


def decision_to_json(decided: Decided) -> dict[str, object]:
    """One decision for a program: everything that was recorded."""
    return {
        "event_id": decided.event_id,
        "line": decided.line,
        "number": decided.number,
        "type": decided.type,
        "occurred_at": decided.occurred_at.isoformat(timespec="microseconds"),
        "actor": decided.actor,
        "schema": SCHEMA,
        **body_to_json(decided.body),
    }


def _told(decided: Decided) -> tuple[str, str]:
    body = decided.body
    match body:
        case Bootstrapped():
            tenants = ", ".join(body.tenants)
            return f"{body.version} goes live first, for {tenants}: {body.reason}", _weights(
                body.weights_sha256
            )
        case CandidateRegistered():
            used = (
                "" if body.trajectories_used is None else f"{body.trajectories_used} trajectories, "
            )
            return (
                f"{body.version} is a candidate, trained from {body.parent or 'unknown'}",
                (
                    f"{_weights(body.weights_sha256)} · {used}{_snapshots(body.snapshots)}"
                    f" · policy {', '.join(body.policy_versions) or 'not named'}"
                ),
            )
        case GateRecorded():
            predicted = (
                ""
                if body.predicted_reward is None
                else f", predicted reward {body.predicted_reward:.3f}"
            )
            return (
                (
                    f"replay of {body.version} against {body.baseline}: {body.verdict}"
                    f" ({', '.join(body.reason_codes)}){predicted}"
                ),
                (
                    f"report {body.report_sha256[:12]} · dataset {body.dataset} · {_snapshots(body.snapshots)} · tenants"
                    f" {', '.join(body.tenants) or 'none'} · {_weights(body.weights_sha256)}"
                ),
            )
        case CandidateRejected():
            report = body.report_sha256[:12] if body.report_sha256 else "none"
            return (
                f"{body.version} is rejected ({', '.join(body.reason_codes)})",
                f"report {report}",
            )
        case CanaryStarted():
            return (
                f"{body.version} becomes the canary with {body.steps[0]:.0%} of new sessions",
                (
                    f"reports {', '.join(r[:12] for r in body.reports)} · {body.engine} · margin {body.policy.margin:g},"
                    f" alpha {body.policy.alpha:g}"
                ),
            )
        case CanaryObserved():
            bounds = (
                ""
                if body.difference is None or body.lower is None or body.upper is None
                else f": {body.difference:+.3f} [{body.lower:+.3f}, {body.upper:+.3f}]"
            )
            return (
                (
                    f"canary {body.version} at {body.share:.0%}: {body.verdict}"
                    f" ({', '.join(body.reason_codes)}){bounds}"
                ),
                (
                    f"canary {body.canary_successes}/{body.canary_judged} of {body.canary_sessions} sessions · stable"
                    f" {body.stable_successes}/{body.stable_judged} of {body.stable_sessions}"
                ),
            )
        case CanaryPaused():
            return f"canary {body.version} is paused ({', '.join(body.reason_codes)})", ""
        case CanaryResumed():
            return f"canary {body.version} goes on: {body.reason}", ""
        case CanaryShareRaised():
            return f"canary {body.version} gets {body.share:.0%} of new sessions", ""
        case CanaryRolledBack():
            return (
                f"canary {body.version} is rolled back to {body.to}: {body.reason}",
                _weights(body.weights_sha256),
            )
        case Promoted():
            return (
                f"{body.version} is live, after {body.superseded}",
                f"{_weights(body.weights_sha256)} · reports {', '.join(r[:12] for r in body.reports)} · {body.engine}",
            )
        case LiveRolledBack():
            return (
                f"live {body.version} is rolled back to {body.to}: {body.reason}",
                f"{_weights(body.to_weights_sha256)} · {body.engine}",
            )
        case _:
            assert_never(body)


def _weights(sha256: str) -> str:
    return f"weights {sha256[:12]}"


def _snapshots(snapshots: Mapping[str, int]) -> str:
    return (
        " ".join(f"{table}@{snapshot}" for table, snapshot in sorted(snapshots.items()))
        or "no snapshots named"
    )
