"""The counters of the engine and their Prometheus collector."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric


@dataclass(slots=True)
class EngineCounters:
    """Counts since the start of the engine; `running` and `waiting` are as of now."""

    requests: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    steps: int = 0
    swaps: int = 0
    aborted: int = 0
    failed: int = 0
    running: int = 0
    waiting: int = 0


class EngineMetrics:
    """Prometheus collector over the engine's counters."""

    def __init__(self, counters: EngineCounters, served_version: Callable[[], str | None]) -> None:
        """Read `counters` and `served_version` (None without a model) at every scrape."""
        self._counters = counters
        self._served_version = served_version

    def collect(self) -> Iterator[Metric]:
        """Return all metrics of this worker."""
        counters = self._counters
        for name, text, value in (
            ("requests", "Sequences asked for", counters.requests),
            (
                "prompt_tokens",
                "Prompt tokens admitted, cached ones included",
                counters.prompt_tokens,
            ),
            ("cached_tokens", "Prompt tokens taken from the prefix cache", counters.cached_tokens),
            ("output_tokens", "Tokens generated", counters.output_tokens),
            ("decode_steps", "Steps of the whole batch", counters.steps),
            ("weight_swaps", "Weight versions loaded", counters.swaps),
            ("aborted", "Sequences aborted", counters.aborted),
            ("failed", "Sequences failed by an error in the engine", counters.failed),
        ):
            yield CounterMetricFamily(f"atdp_inference_{name}", text, value=value)
        yield GaugeMetricFamily(
            "atdp_inference_running", "Sequences in the batch", value=counters.running
        )
        yield GaugeMetricFamily(
            "atdp_inference_waiting", "Sequences not yet admitted", value=counters.waiting
        )
        version = GaugeMetricFamily(
            "atdp_inference_weights", "1 for the weight version that serves", labels=["version"]
        )
        if (served := self._served_version()) is not None:
            version.add_metric([served], 1)
        yield version
