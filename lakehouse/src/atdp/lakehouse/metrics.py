"""Metrics of the lake writer."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_SECONDS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)


class WriterMetrics:
    """The metrics of the lake writer, labelled by table or topic."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, doc: str, *labels: str) -> Counter:
            return Counter(f"atdp_lake_{name}", doc, labels, registry=registry)

        self.rows = counter("rows", "Rows committed.", "table")
        self.repeats = counter("repeats", "Rows of copies of events that had landed.", "table")
        self.conflicts = counter(
            "conflicts", "Copies with other content than the event that had landed.", "table"
        )
        self.replaced = counter(
            "replaced", "Rows replaced, since their events were governed again.", "table"
        )
        self.commits = counter("commits", "Commits.", "table")
        self.refused = counter("refused", "Batches given up because another writer was faster.")
        self.set_aside = counter("set_aside", "Records left out because a person said so.", "topic")
        self.unreadable = counter(
            "unreadable_batches", "Batches left out because they cannot be read.", "topic"
        )
        self.collected_bytes = counter(
            "collected_bytes", "Bytes of garbage files deleted.", "table"
        )
        self.commit_seconds = Histogram(
            "atdp_lake_commit_seconds",
            "Seconds from a decoded batch to its commit.",
            ["table"],
            buckets=_SECONDS,
            registry=registry,
        )
        self.lag = Gauge(
            "atdp_lake_lag",
            "Offsets between what was taken and the end of the topic.",
            ["topic"],
            registry=registry,
        )
