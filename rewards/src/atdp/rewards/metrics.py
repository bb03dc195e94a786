"""Metrics of the derivation of rewards."""

from prometheus_client import CollectorRegistry, Counter, Gauge


class RewardMetrics:
    """The metrics of one worker."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.emitted = Counter(
            "atdp_rewards_emitted", "Derived rewards emitted.", ["tenant"], registry=registry
        )
        self.beyond_limits = Counter(
            "atdp_rewards_ratings_beyond_limits",
            "Ratings that were no evidence, because their person gave too many; counted at each "
            "derivation.",
            ["tenant"],
            registry=registry,
        )
        self.broken_rules = Gauge(
            "atdp_rewards_broken_rules",
            "1 while the rules file of the tenant is wrong.",
            ["tenant"],
            registry=registry,
        )
        self.failures = Counter(
            "atdp_rewards_failures", "Steps that failed and are repeated.", registry=registry
        )
