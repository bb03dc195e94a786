"""Metrics of the scheduler."""

from datetime import datetime

from prometheus_client import CollectorRegistry, Counter, Gauge

from atdp.stack.schedules.schedule_book import ScheduleBook


class SchedulerMetrics:
    """The metrics of one scheduler process. Runs of earlier processes are counted, too."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.requested = Counter(
            "atdp_schedule_runs_requested",
            "Runs that were requested.",
            ["schedule", "cause"],
            registry=registry,
        )
        self.completed = Counter(
            "atdp_schedule_runs_completed",
            "Runs that have ended.",
            ["schedule", "verdict"],
            registry=registry,
        )
        self.failures = Counter(
            "atdp_schedule_failures",
            "Steps of the scheduler that failed and are repeated.",
            registry=registry,
        )
        self._open = Gauge(
            "atdp_schedule_runs_open",
            "Runs that have not ended.",
            ["schedule"],
            registry=registry,
        )
        self._oldest_s = Gauge(
            "atdp_schedule_oldest_open_run_seconds",
            "Seconds since the request of the oldest run that has not ended; 0 without one.",
            registry=registry,
        )

    def show(self, book: ScheduleBook, now: datetime) -> None:
        """Show what is open in a book."""
        oldest = now
        for name, record in book.schedules.items():
            self._open.labels(name).set(len(record.open_times))
            for moment in record.open_times:
                oldest = min(oldest, record.runs[moment].requested_at)
        self._oldest_s.set((now - oldest).total_seconds())
