"""Running an import: read every file, send every event through a recorder, count, and wait for the deliveries.

Whatever the recorder is, events go out marked as redelivery, since an earlier run may have sent
them. A file or row that cannot be read is counted and named, and the rest goes on. A trajectory met
twice in one run is skipped.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from atdp.adapters.errors import ImportFailed
from atdp.adapters.importers.imported_trajectory import Failed, Importer, Trajectory, events
from atdp.adapters.importers.tau_bench import TauBench
from atdp.schemas import Action, Event, EventId, Reward, contributed_messages

IMPORTERS: Mapping[str, Importer] = {importer.format: importer for importer in (TauBench(),)}
"""Importers by format name."""


class Flushed(Protocol):
    """What a recorder says about its deliveries."""

    @property
    def delivered(self) -> int:
        """Events that the log has."""
        ...

    @property
    def complete(self) -> bool:
        """Nothing is pending and nothing was lost."""
        ...


class EventRecorder(Protocol):
    """The part of `atdp.sdk.Recorder` that an import needs."""

    def emit_event(self, event: Event, *, redelivery: bool = False) -> EventId:
        """Record one event."""
        ...

    def flush(self, timeout_s: float = 10.0) -> Flushed:
        """Wait for deliveries."""
        ...


@dataclass
class ImportReport:
    """What an import did. `imported` + `failed` + `skipped` is everything that was met."""

    format: str
    files: int = 0
    imported: int = 0
    """Trajectories whose events were recorded (or would be, in a dry run)."""
    skipped: int = 0
    """Trajectories met a second time."""
    failures: list[Failed] = field(default_factory=list)
    events: int = 0
    messages: int = 0
    tool_calls: int = 0
    rewards: int = 0
    reward_sum: float = 0.0
    delivered: bool | None = None
    """Whether every event was acknowledged within the time given; None in a dry run."""

    @property
    def failed(self) -> int:
        """Files and rows that could not be read."""
        return len(self.failures)

    @property
    def ok(self) -> bool:
        """Nothing failed and nothing is undelivered."""
        return not self.failures and self.delivered is not False

    def count(self, made: Iterable[Event]) -> None:
        """Add the events of one imported trajectory."""
        self.imported += 1
        for event in made:
            self.events += 1
            self.messages += len(contributed_messages(event.body))
            if isinstance(event.body, Action) and event.body.type == "tool_call":
                self.tool_calls += 1
            if isinstance(event.body, Reward) and event.body.value is not None:
                self.rewards += 1
                self.reward_sum += event.body.value


def run_import(
    format_name: str,
    paths: Iterable[Path],
    tenant: str,
    recorder: EventRecorder | None,
    *,
    dry_run: bool = False,
    progress: Callable[[ImportReport], None] | None = None,
    flush_timeout_s: float = 300.0,
) -> ImportReport:
    """Import files of one format for a tenant; folders stand for the files in them that look like the format.

    `recorder` may be None in a dry run only. `progress` is called after every trajectory.

    Raises:
        ImportFailed: unknown format, or no recorder though it is no dry run.
    """
    importer = IMPORTERS.get(format_name)
    if importer is None:
        raise ImportFailed(f"unknown format {format_name!r}; known formats: {', '.join(IMPORTERS)}")
    if recorder is None and not dry_run:
        raise ImportFailed("an import needs a recorder to send through; without one use a dry run")
    report = ImportReport(format=importer.format)
    seen: set[str] = set()
    for found in _read_all(importer, paths, report):
        if isinstance(found, Failed):
            report.failures.append(found)
        else:
            made = events(found, tenant)
            key = f"{made[0].trajectory_id}/{found.attempt}"
            if key in seen:
                report.skipped += 1
            else:
                seen.add(key)
                if recorder is not None and not dry_run:
                    for event in made:
                        recorder.emit_event(event, redelivery=True)
                report.count(made)
        if progress is not None:
            progress(report)
    if recorder is not None and not dry_run:
        report.delivered = recorder.flush(flush_timeout_s).complete
    return report


def _read_all(
    importer: Importer, paths: Iterable[Path], report: ImportReport
) -> Iterator[Trajectory | Failed]:
    for path in paths:
        if path.is_dir():
            inside = sorted(
                file for file in path.rglob("*") if file.is_file() and importer.probe(file)
            )
            if not inside:
                yield Failed(str(path), f"no file in this folder looks like {importer.format}")
            files = inside
        else:
            files = [path]
        for file in files:
            report.files += 1
            if file.is_file() and not importer.probe(file) and not _is_json_start(file):
                yield Failed(str(file), f"the file does not look like {importer.format}")
                continue
            yield from importer.read(file)


def _is_json_start(file: Path) -> bool:
    """Whether reading it as JSON gives the better message (a broken row, an empty list)."""
    with file.open("rb") as opened:
        return opened.read(1024).lstrip()[:1] in {b"[", b"{"}
