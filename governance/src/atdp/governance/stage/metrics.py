"""What the worker counts.

Labels are codes from closed sets; no value of an event is ever a label.
"""

from dataclasses import dataclass, field

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram

from atdp.governance.gate import Decided

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


@dataclass
class StageMetrics:
    """The catalogue."""

    registry: CollectorRegistry = field(default_factory=lambda: REGISTRY)

    def __post_init__(self) -> None:
        """Register every metric."""
        self.records = Counter(
            "atdp_governance_records",
            "Records decided and committed.",
            ["decision"],
            registry=self.registry,
        )
        self.quarantined = Counter(
            "atdp_governance_quarantined",
            "Records refused, by reason.",
            ["reason"],
            registry=self.registry,
        )
        self.findings = Counter(
            "atdp_governance_findings",
            "Values replaced, by entity.",
            ["entity"],
            registry=self.registry,
        )
        self.bytes = Counter(
            "atdp_governance_bytes", "Bytes of raw values decided.", registry=self.registry
        )
        self.transactions = Counter(
            "atdp_governance_transactions",
            "Transactions, by outcome.",
            ["outcome"],
            registry=self.registry,
        )
        self.seconds = Histogram(
            "atdp_governance_transaction_seconds",
            "Time from the first record of a transaction to its commit.",
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.halted = Gauge(
            "atdp_governance_halted",
            "1 while an unusable policy or key store stops the gate.",
            registry=self.registry,
        )
        self.lag = Gauge(
            "atdp_governance_lag_records",
            "Raw records not yet governed.",
            ["partition"],
            registry=self.registry,
        )

    def committed(self, decided: Decided, raw_bytes: int) -> None:
        """Count one decision whose transaction committed."""
        self.records.labels(decided.decision).inc()
        self.bytes.inc(raw_bytes)
        if decided.decision == "quarantined":
            self.quarantined.labels(decided.reason).inc()
        for one in decided.found:
            self.findings.labels(one.entity).inc(one.count)
