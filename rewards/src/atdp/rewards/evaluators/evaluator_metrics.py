"""Metrics of evaluators."""

from prometheus_client import CollectorRegistry, Counter


class EvaluatorMetrics:
    """The metrics of one worker."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.evaluations = Counter(
            "atdp_evaluators_evaluations",
            "Evaluations by their outcome: `emitted`, or the reason why they were parked or "
            "skipped.",
            ["tenant", "evaluator", "outcome"],
            registry=registry,
        )
        self.failures = Counter(
            "atdp_evaluators_failures", "Steps that failed and are repeated.", registry=registry
        )
