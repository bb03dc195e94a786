"""The lake writer: governed topics → Iceberg tables.

`python -m atdp.lakehouse.writer --home DIR --port N`.

One thread: take records, and once they have waited `linger_s` or are many, commit them to every
table of their topic. Memory is bounded by `max_bytes` plus what librdkafka holds ahead. SIGTERM
commits what is held and leaves. A kill at any point costs nothing: positions are in the tables.
Several writers may run; the group spreads partitions, positions fence.
"""

import argparse
import logging
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from atdp.lakehouse.consumer import POLL_S, Intake, identify_topics
from atdp.lakehouse.errors import CommitRefused, LakehouseError, WriteTooOld
from atdp.lakehouse.lake import Lake, open_lake
from atdp.lakehouse.metrics import WriterMetrics
from atdp.lakehouse.positions import TopicIdentity
from atdp.lakehouse.retention import collect
from atdp.lakehouse.sink import TableSink, TopicSink
from atdp.lakehouse.tables import TableName, table_definitions
from atdp.runtime import KafkaSettings, PlatformError, Service
from atdp.schemas import TopicRole, topic

_log = logging.getLogger("atdp.lakehouse")

SOURCES: Sequence[TopicRole] = ("events_governed", "events_quarantine", "audit")

MakeSink = Callable[..., TableSink]


@dataclass(frozen=True, kw_only=True)
class WriterSettings:
    """How the writer trades latency for commits."""

    group: str = "atdp-lake-writer"
    topics: Mapping[TopicRole, str] = field(
        default_factory=lambda: {role: topic(role).name for role in SOURCES}
    )
    linger_s: float = 0.8
    """A record waits at most this long before its commit begins: at 200 events/s a commit takes
    about 0.2 s, so p99 stays below 2 s."""
    max_records: int = 100_000
    max_bytes: int = 96 * 1024 * 1024
    """Commit earlier when this much is held; with Arrow copies the process needs about five times
    as much."""
    session_timeout_s: float = 10.0
    """A dead or frozen writer's partitions move to another after this; correctness does not hang on
    it."""
    collect_every_s: float = 600.0
    """How often garbage is looked for."""
    set_aside: frozenset[tuple[str, int, int]] = frozenset()
    """(topic, partition, offset) of records left out."""


class Writer:
    """Takes, commits, repeats."""

    def __init__(
        self,
        lake: Lake,
        kafka: KafkaSettings,
        settings: WriterSettings,
        metrics: WriterMetrics,
        *,
        make: MakeSink = TableSink,
    ) -> None:
        self._lake, self._settings, self._metrics = lake, settings, metrics
        identities = identify_topics(kafka, settings.topics)
        self._sinks = {
            role: self._open(role, identity, make) for role, identity in identities.items()
        }
        self._oldest: float | None = None
        self._collected_at = time.monotonic()
        self.intake = Intake(
            kafka,
            settings.topics,
            settings.group,
            self._read_on,
            on_rebalance=self._reload_positions,
            session_timeout_s=settings.session_timeout_s,
        )

    def step(self) -> bool:
        """One bounded unit of work; whether anything was committed."""
        self.intake.poll(POLL_S)
        if self._oldest is None and self._holds_news():
            self._oldest = time.monotonic()
        if self._due():
            return self.flush()
        self._report_lag()
        self._collect_sometimes()
        return False

    def flush(self) -> bool:
        """Commit what is held; on a refusal drop it and read on from the tables' positions."""
        self._oldest = None
        try:
            for role, batch in self.intake.take().items():
                if not batch.end or not self._sinks[role].moves(batch):
                    continue
                for done in self._sinks[role].write(batch):
                    self._count(done.table, done.rows, done.repeats, done.seconds)
                self._metrics.set_aside.labels(self._settings.topics[role]).inc(
                    self._sinks[role].left_out(batch)
                )
                self.intake.note_progress(role, batch.end)
        except (CommitRefused, WriteTooOld) as refusal:
            self._metrics.refused.inc()
            _log.warning("batch given up, reading on from the tables", extra={"why": str(refusal)})
            self._reload_positions()
            self.intake.rewind()
            return False
        return True

    def close(self) -> None:
        """Commit what is held and leave the group."""
        self.flush()
        self.intake.close()

    def _due(self) -> bool:
        if self._oldest is None:
            return False
        waited = time.monotonic() - self._oldest
        held = self.intake
        return (
            waited >= self._settings.linger_s
            or held.records >= self._settings.max_records
            or held.size >= self._settings.max_bytes
        )

    def _holds_news(self) -> bool:
        """Records, or ends of partitions that moved without any (markers of aborted transactions)."""
        return any(self._sinks[role].moves(batch) for role, batch in self.intake.batches.items())

    def _read_on(self, role: TopicRole, partition: int) -> int | None:
        return self._sinks[role].position(partition)

    def _reload_positions(self) -> None:
        for sink in self._sinks.values():
            sink.reload()

    def _open(self, role: TopicRole, identity: TopicIdentity, make: MakeSink) -> TopicSink:
        chosen = {
            (partition, offset)
            for name, partition, offset in self._settings.set_aside
            if name == identity.name
        }
        return TopicSink.open(self._lake, role, identity, make=make, set_aside=chosen)

    def _count(self, table: TableName, rows: int, repeats: int, seconds: float) -> None:
        self._metrics.rows.labels(table).inc(rows)
        self._metrics.repeats.labels(table).inc(repeats)
        self._metrics.commits.labels(table).inc()
        self._metrics.commit_seconds.labels(table).observe(seconds)
        _log.info(
            "committed",
            extra={"table": table, "rows": rows, "repeats": repeats, "seconds": round(seconds, 3)},
        )

    def _report_lag(self) -> None:
        totals: dict[str, int] = {self._settings.topics[role]: 0 for role in self._sinks}
        for (role, _), behind in self.intake.lag().items():
            totals[self._settings.topics[role]] += behind
        for name, behind in totals.items():
            self._metrics.lag.labels(name).set(behind)

    def _collect_sometimes(self) -> None:
        if time.monotonic() - self._collected_at < self._settings.collect_every_s:
            return
        self._collected_at = time.monotonic()
        for name in table_definitions():
            done = collect(self._lake.table(name))
            self._metrics.collected_bytes.labels(name).inc(done.bytes)
            if done.files:
                _log.info(
                    "garbage collected",
                    extra={"table": name, "files": done.files, "bytes": done.bytes},
                )


def parse_place(text: str) -> tuple[str, int, int]:
    """`topic:partition:offset`.

    Raises:
        argparse.ArgumentTypeError: it does not read so.
    """
    name, _, rest = text.partition(":")
    partition, _, offset = rest.partition(":")
    if not (name and partition.isdigit() and offset.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is not TOPIC:PARTITION:OFFSET")
    return name, int(partition), int(offset)


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--set-aside",
        action="append",
        default=[],
        type=parse_place,
        metavar="TOPIC:PARTITION:OFFSET",
        help="leave out this record, which cannot be read or stored (repeatable)",
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run until SIGTERM; 1 when the writer had to stop by itself."""
    service = Service.start(
        "lake-writer", argv, options=_options, description="Governed topics into Iceberg tables."
    )
    with service.serving():
        try:
            run(service)
        except (LakehouseError, PlatformError):
            _log.exception("the lake writer stops")
            return 1
    return 0


def run(
    service: Service, settings: WriterSettings | None = None, *, make: MakeSink = TableSink
) -> None:
    """Build the writer and step it until the service is told to stop.

    Raises:
        LakehouseError, PlatformError: a person has to look.
    """
    chosen = settings or WriterSettings(set_aside=frozenset(service.options.set_aside))
    writer = Writer(
        open_lake(service.home),
        KafkaSettings.from_env(service.home),
        chosen,
        WriterMetrics(service.health.registry),
        make=make,
    )
    service.health.ready()
    while not service.stop.is_set():
        writer.step()
    writer.close()


if __name__ == "__main__":
    sys.exit(main())
