"""The metrics of the worker.

Labels are codes from closed sets; no value of an event is ever a label.
"""

from typing import Final

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram

from atdp.governance.decisions import GovernanceDecision

_BUCKETS_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


class StageMetrics:
    """The catalogue of the worker's metrics."""

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        """Register every metric."""
        self.records = Counter(
            "atdp_governance_records",
            "Records decided and committed.",
            ["decision"],
            registry=registry,
        )
        self.quarantined = Counter(
            "atdp_governance_quarantined",
            "Records refused, by reason.",
            ["reason"],
            registry=registry,
        )
        self.not_kept = Counter(
            "atdp_governance_quarantine_not_kept",
            "Records whose payload quarantine did not keep: too large, over the quota of their "
            "source, or in a batch that cannot be read.",
            ["why"],
            registry=registry,
        )
        self.findings = Counter(
            "atdp_governance_findings",
            "Values replaced, by entity.",
            ["entity"],
            registry=registry,
        )
        self.bytes = Counter(
            "atdp_governance_bytes", "Bytes of raw values decided.", registry=registry
        )
        self.transactions = Counter(
            "atdp_governance_transactions",
            "Transactions, by outcome.",
            ["outcome"],
            registry=registry,
        )
        self.seconds = Histogram(
            "atdp_governance_transaction_seconds",
            "Time from the first record of a transaction to its commit.",
            buckets=_BUCKETS_S,
            registry=registry,
        )
        self.regoverned = Counter(
            "atdp_governance_regoverned",
            "Records governed again with what was learned after them, by outcome.",
            ["outcome"],
            registry=registry,
        )
        self.not_settled = Counter(
            "atdp_governance_not_settled",
            "Events that could not be governed again, or came after the learned values of their "
            "trajectory were deleted (late), by reason.",
            ["reason"],
            registry=registry,
        )
        self.trajectories = Gauge(
            "atdp_governance_learned_trajectories",
            "Trajectories whose learned values are in memory.",
            registry=registry,
        )
        self.halted = Gauge(
            "atdp_governance_halted",
            "1 while the register or a key store cannot be read, which halts governance.",
            registry=registry,
        )
        self.lag = Gauge(
            "atdp_governance_lag_records",
            "Raw records not yet governed.",
            ["partition"],
            registry=registry,
        )

        self.alarms = Counter(
            "atdp_governance_alarms",
            "Alarms, by what they are about.",
            ["about"],
            registry=registry,
        )

    def count_committed(self, decision: GovernanceDecision, raw_bytes: int) -> None:
        """Count one decision whose transaction committed."""
        self.records.labels(decision.decision).inc()
        self.bytes.inc(raw_bytes)
        if decision.decision == "quarantined":
            self.quarantined.labels(decision.reason).inc()
        if decision.not_kept is not None:
            self.not_kept.labels(decision.not_kept).inc()
        if decision.alarm is not None:
            self.alarms.labels(decision.alarm.partition(":")[0]).inc()
        if decision.late:
            self.not_settled.labels("late").inc()
        for each in decision.replacements:
            self.findings.labels(each.entity).inc(each.count)
